from tflite_export.export.export import export
from tflite_export.export.export_options import ExportOptions
from tflite_export.export.export_result import ExportResult
from tflite_export.export.trained_run import TrainedRun
from tflite_export.gate.verification import verify

__all__ = [
    "ExportOptions",
    "ExportResult",
    "TrainedRun",
    "export",
    "verify",
]
