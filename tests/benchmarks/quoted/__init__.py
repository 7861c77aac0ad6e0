"""Sentences of the hand-written pages that quote measured figures, each with the computation of what it quotes."""
