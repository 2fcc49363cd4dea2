"""The Hugging Face Trainer, set up for language models that differ only in their attention."""

from diffattn.training.loading import LoadedRun, load_run
from diffattn.training.pretrained import Pretrained, load_pretrained
from diffattn.training.settings import TrainingSettings
from diffattn.training.trainer import build_model, choose_device, train

__all__ = [
    "LoadedRun",
    "Pretrained",
    "TrainingSettings",
    "build_model",
    "choose_device",
    "load_pretrained",
    "load_run",
    "train",
]
