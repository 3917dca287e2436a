"""How every system was trained: the recipes that the rows of the studies change.

    base         what all the papers do, and their networks
    four_papers  Proxy-Anchor, ProxyNCA++, ProxyGML
    hierarchy    HPL and its rivals
    compared     the systems that the four papers compare themselves with
    newer        systems newer than the four papers

Settings follow the authors' released code where it is public, because it is what produced the numbers; where
the paper's text differs, a comment or a caveat says so.

Tags in comments: [S] paper, [P] poster, [C] code, [D] derived, "ours" a choice where no source says.
"""
