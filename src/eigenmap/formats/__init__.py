"""Vector models in the formats of other programs: plain arrays, SQL, sentence-transformers folders."""
