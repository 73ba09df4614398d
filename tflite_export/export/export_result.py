"""What an export wrote, as values and as the lines that the task prints."""

import dataclasses

from tff_keyboard.evaluation.results.golden_prompts import PromptReport
from tflite_export.export.export_options import ExportOptions
from tflite_export.export.ngram_part import HybridReport, NGramPart
from tflite_export.export.tail_part import TailPart
from tflite_export.format import inspection, manifest
from tflite_export.gate import parity


@dataclasses.dataclass(frozen=True)
class ExportResult:
    """What was written.

    Attributes:
      paths: The files.
      report: What the model file holds.
      parity: None if no text was given.
      vocabulary_bytes: Bytes of the vocabulary file.
      model_bytes: Bytes of the model file, with what is packed into it.
      hybrid: What n-gram and own words are worth; None without an n-gram or without text.
      prompts: What it shows for golden prompts; None if none were given.
    """

    paths: manifest.ExportPaths
    report: inspection.FileReport
    parity: parity.ParityReport | None
    vocabulary_bytes: int
    model_bytes: int
    hybrid: HybridReport | None = None
    prompts: PromptReport | None = None

    @property
    def network_bytes(self) -> int:
        """Of model and vocabulary."""
        return self.report.num_bytes + self.vocabulary_bytes

    def lines(
        self,
        options: ExportOptions,
        *,
        ngram: NGramPart | None,
        tail: TailPart | None = None,
        explain: bool,
    ) -> list[str]:
        """What a person is told; `explain` adds bytes by tensor."""
        packed = ", packed" if options.pack else ""
        found = [
            f"{self.paths.model}: {self.model_bytes:,} bytes, {options.quantization}",
            f"vocabulary: {self.vocabulary_bytes:,} bytes{packed}",
        ]
        if ngram is not None:
            found.append(f"n-gram: {ngram.summary(self.network_bytes)}{packed}")
        if tail is not None:
            found.append(f"lexicon: {tail.summary}{packed}")
        if explain:
            found.append(inspection.explain(self.report))
        found.append(self.parity.table() if self.parity else "parity: not checked (--no-parity)")
        found += [report.table() for report in (self.prompts, self.hybrid) if report is not None]
        if self.parity and self.parity.forgiven:
            found.append(f"allowed by --allow-loss: {self.parity.forgiven}")
        return found
