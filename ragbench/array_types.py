"""Types of numpy arrays, by their elements."""

import numpy as np
import numpy.typing as npt

Bools = npt.NDArray[np.bool_]
FloatArray = npt.NDArray[np.float32]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
