"""Export of models and codes to ONNX, Parquet, FAISS, plain arrays and SQL."""

from eigenmap.export.codes import export_faiss, export_parquet
from eigenmap.export.maps import export_map
from eigenmap.export.onnx import export_onnx

__all__ = ["export_faiss", "export_map", "export_onnx", "export_parquet"]
