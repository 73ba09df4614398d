"""The result of an export, as values and as the lines that the task prints."""

import dataclasses

from tflite_export.export.export_options import ExportOptions
from tflite_export.export.ngram_part import HybridReport, NGramPart
from tflite_export.export.tail_part import TailPart
from tflite_export.format import inspection, manifest
from tflite_export.gate import parity


@dataclasses.dataclass(frozen=True)
class ExportResult:
    """The result of an export.

        result = tk.export.export(run, pathlib.Path("keyboard.tflite"), options)
        print(*result.lines(options, ngram=None), sep="\\n")

    Attributes:
      paths: The files.
      report: Contents of the model file.
      parity: Result of the parity gate; None if no text was given.
      vocabulary_bytes: Size of the vocabulary file.
      model_bytes: Size of the model file, including the files packed into it.
      hybrid: Metrics with and without n-gram and cache; None without an n-gram or without text.
    """

    paths: manifest.ExportPaths
    report: inspection.FileReport
    parity: parity.ParityReport | None
    vocabulary_bytes: int
    model_bytes: int
    hybrid: HybridReport | None = None

    @property
    def network_bytes(self) -> int:
        """Size of model and vocabulary."""
        return self.report.num_bytes + self.vocabulary_bytes

    def lines(
        self,
        options: ExportOptions,
        *,
        ngram: NGramPart | None,
        tail: TailPart | None = None,
    ) -> list[str]:
        """Returns the lines that the task prints."""
        packed = ", packed" if options.pack else ""
        lines = [
            f"{self.paths.model}: {self.model_bytes:,} bytes, {options.quantization}",
            f"vocabulary: {self.vocabulary_bytes:,} bytes{packed}",
        ]
        if ngram is not None:
            lines.append(f"n-gram: {ngram.summary(self.network_bytes)}{packed}")
        if tail is not None:
            lines.append(f"lexicon: {tail.summary}{packed}")
        lines.append(self.parity.table() if self.parity else "parity: not checked (--no-parity)")
        if self.hybrid is not None:
            lines.append(self.hybrid.table())
        if self.parity and self.parity.forgiven:
            lines.append(f"allowed by --allow-loss: {self.parity.forgiven}")
        return lines
