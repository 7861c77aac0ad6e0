"""Reproduction of the paper's tables and figures at three scales.

    sets = load_sets("small", Path("DATA"))
    rows = table_1("small", sets)

The scales are `paper` (ImageNet, ResNet-50), `small` (CIFAR-10, ResNet-18) and `tiny` (generated images, seconds).
"""

from eigenmap.reproduce.items import ITEMS, Item, our_numbers
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
    "our_numbers",
    "recipe_of",
    "table_1",
    "table_6",
]
