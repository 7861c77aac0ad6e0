"""Pace of a run: its position in the schedule, and the number of steps left until its end or its deadline."""

from __future__ import annotations

import math
from collections import deque

FEWEST, MOST, SHARE = 4, 64, 0.02
"""Window of recent steps whose mean duration predicts the next ones: at least `FEWEST` steps and `SHARE` of the time,
but at most `MOST` steps. A change of speed is noticed soon, and noise is averaged out."""


class Pace:
    """Position in a schedule of `steps` steps, and the number of steps left.

    A step advances the position by one. With a deadline, the number of steps left is estimated again after every step,
    and the rest of the schedule is spread evenly over them. The learning rate therefore never jumps, and it reaches its
    final value when time is up, even if the machine has become slower or faster since the first estimate.

        >>> pace = Pace(100, deadline=60.0)
        >>> pace.advance(at=1.2)  # the first step took twice as long as planned
        >>> pace.left, pace.position
        (49, 1.0)
        >>> pace.advance(at=2.4)
        >>> round(pace.position, 2)
        3.02
    """

    def __init__(
        self,
        steps: int,
        position: float = 0.0,
        deadline: float | None = None,
        at: float = 0.0,
        most: float = math.inf,
    ) -> None:
        """Begin at `position`, at the time `at` on the clock of the run (in seconds) that the deadline refers to.

        `most` limits the steps from here to the deadline.
        """
        self.steps = steps
        self.position = min(position, steps)
        self._most = max(0, most)
        ended = deadline is not None and at >= deadline
        self.left = 0 if ended else int(min(math.ceil(steps - self.position), self._most))
        self._deadline = deadline
        self._before = self.position
        self._reserve = 0.0
        self._at = at
        self._recent: deque[float] = deque(maxlen=MOST)

    @property
    def ended(self) -> bool:
        """Whether the last step has been taken."""
        return self.left == 0

    def advance(self, at: float, replan: bool = True) -> None:
        """Count a step that ended at the time `at`; with `replan`, estimate the steps left again."""
        self._before = self.position
        self.position += (self.steps - self.position) / self.left
        self.left -= 1
        self._most -= 1
        self._recent.append(at - self._at)
        self._at = at
        if replan and not self.ended:
            self.replan(at)

    def replan(self, at: float) -> None:
        """Estimate the steps left from the time until the deadline; a step that cannot end in time is not begun."""
        if self._deadline is None or not self._recent:
            return
        left = self._deadline - self._reserve - at
        fit = math.floor(left / max(self._seconds(SHARE * self._deadline), 1e-9))
        self.left = int(max(0, min(fit, self._most)))

    def _seconds(self, enough: float) -> float:
        """Return the mean duration of the last steps that together took `enough` seconds."""
        total, count = 0.0, 0
        for seconds in reversed(self._recent):
            total, count = total + seconds, count + 1
            if count >= FEWEST and total >= enough:
                break
        return total / count

    def paused(self, at: float) -> None:
        """Record a check or checkpoint that ended at the time `at`; time for the last one is reserved."""
        self._reserve = max(self._reserve, at - self._at)
        self._at = at

    def reaches(self, every: int) -> bool:
        """Tell whether the step just taken was the final one or passed a multiple of `every` in the schedule."""
        return self.ended or self.position // every > self._before // every
