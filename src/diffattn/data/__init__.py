"""Text to tokens: corpora, a byte-level BPE trained on the train split alone, memory-mapped token files."""

from diffattn.data.corpora import Corpus, load_corpus
from diffattn.data.encoded_corpus import EncodedCorpus
from diffattn.data.packing import PreparedData, TokenBlocks, prepare

__all__ = ["Corpus", "EncodedCorpus", "PreparedData", "TokenBlocks", "load_corpus", "prepare"]
