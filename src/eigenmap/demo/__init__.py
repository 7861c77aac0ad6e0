"""Demo: two models trained in minutes on the embedded catalogue, compared with their rivals.

    demo = run(Path("runs/demo"))
    demo.scenes["clean"].methods["ours"].value("map_over_found@1000", dim=8)

`study` trains and measures, `methods` defines the methods compared, `page` makes the figures, the report and demo.json.
"""

from eigenmap.demo.methods import METRIC_NAMES, Method
from eigenmap.demo.study import Demo, Scene, run

__all__ = ["METRIC_NAMES", "Demo", "Method", "Scene", "run"]
