"""Many classes: losses that go through the classes in chunks, equal to their dense forms.

`proxy_anchor.py` needs one pass, `softmax.py` two (all softmax losses), `soft_triple.py` adds its centers,
`proxy_gml.py` is the sparse form of a loss that selects few proxies.
Sampled and sharded classes (`losses/sampled.py`, `losses/sharded.py`) are the same functions with another
`Part`.
"""
