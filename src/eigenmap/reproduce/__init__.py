"""The paper, item by item: its tables and figures at three scales.

    sets = load_sets("small", Path("DATA"))
    rows = table_1("small", sets)

Scales: `paper` is ImageNet and ResNet-50, `small` CIFAR-10 and ResNet-18, `tiny` generated images and seconds.
"""

from eigenmap.reproduce.items import ITEMS, Item
from eigenmap.reproduce.methods import METHODS, Method, Scale, recipe_of
from eigenmap.reproduce.retrieval import figure_retrieval
from eigenmap.reproduce.sets import Sets, load_sets
from eigenmap.reproduce.table_1 import table_1
from eigenmap.reproduce.table_6 import load_labelled_graph, table_6

__all__ = [
    "ITEMS",
    "METHODS",
    "Item",
    "Method",
    "Scale",
    "Sets",
    "figure_retrieval",
    "load_labelled_graph",
    "load_sets",
    "recipe_of",
    "table_1",
    "table_6",
]
