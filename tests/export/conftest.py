from tests.embedding.conftest import model, photos, run

__all__ = ["model", "photos", "run"]
