"""`python -m benchmarks`: the short form of every benchmark that needs no data, one after the other."""

import subprocess
import sys

SHORT = (
    ["benchmarks.losses", "--short"],
    ["benchmarks.frozen", "--rounds", "3"],
    ["benchmarks.time_to_quality", "--short"],
    ["benchmarks.evaluation", "--short"],
)

for words in SHORT:
    print(f"== python -m {' '.join(words)}", flush=True)
    subprocess.run([sys.executable, "-m", *words], check=True)
