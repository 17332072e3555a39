"""The store of trials: Parquet files in a folder or bucket, written by any number of processes, asked in SQL."""

from gemmgen.explore.store.merging import Compacted, compact
from gemmgen.explore.store.questions import Question, questions
from gemmgen.explore.store.reader import Store
from gemmgen.explore.store.writer import Writer

__all__ = ["Compacted", "Question", "Store", "Writer", "compact", "questions"]
