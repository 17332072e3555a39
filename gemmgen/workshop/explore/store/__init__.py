"""The store of trials: Parquet files in a folder or bucket, written by any number of processes, asked in SQL."""

from gemmgen.workshop.explore.store.merging import Compacted, compact
from gemmgen.workshop.explore.store.questions import Question, questions
from gemmgen.workshop.explore.store.reader import Store
from gemmgen.workshop.explore.store.writer import Writer

__all__ = ["Compacted", "Question", "Store", "Writer", "compact", "questions"]
