"""Export of models and codes to ONNX, Parquet and FAISS."""

from eigenmap.export.codes import export_faiss, export_parquet
from eigenmap.export.onnx import export_onnx

__all__ = ["export_faiss", "export_onnx", "export_parquet"]
