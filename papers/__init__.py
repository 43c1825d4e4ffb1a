"""Papers, reproduced: a folder for each, with what it claims, what must hold, and the experiment.

`tidings reproduce PAPER` runs `experiment.py` there. What such a module has is said in README.md. Papers see
only what programs see: `tidings`, `tidings.gathering` and the simulator.
"""
