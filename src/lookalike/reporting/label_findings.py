"""What embeddings say about labels, as findings of a data report."""

from lookalike.data.data_report import Finding
from lookalike.data.dataset import LabeledImages
from lookalike.evaluation.label_quality import LabelQuality


def label_findings(table: LabeledImages, quality: LabelQuality) -> dict[str, Finding]:
    """Findings by kind, all of them warnings: a person decides about doubtful images."""
    name, path = table.class_names, table.paths
    return {
        "mislabeled": Finding(
            "warning",
            "images are likely mislabeled: their neighbors have another label",
            [[path[one.row]] for one in quality.mislabeled],
            [
                f"{path[one.row]}: labeled '{name[table.labels[one.row]]}', {100 * one.share:.0f} % of its neighbors "
                f"are '{name[one.suggested]}'"
                for one in quality.mislabeled
            ],
        ),
        "outliers": Finding(
            "warning",
            "images are outliers: unlike all others",
            [[path[row]] for row, _ in quality.outliers],
            [f"{path[row]}: similarity {value:.2f} to the nearest image" for row, value in quality.outliers],
        ),
        "near_by_embedding": Finding(
            "warning",
            "pairs of images have nearly the same embedding",
            [[path[first], path[second]] for first, second in quality.near_duplicates],
        ),
    }
