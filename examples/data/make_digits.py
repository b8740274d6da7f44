"""Create digits.npz: 1,797 handwritten digits of 8x8 pixels from the UCI repository.

The images are the test set of "Optical Recognition of Handwritten Digits" (E. Alpaydin and C. Kaynak, 1998).
scikit-learn contains a copy (`sklearn.datasets.load_digits`), which this script reads:

    pip install scikit-learn
    python make_digits.py
"""

import os

import numpy as np
from sklearn.datasets import load_digits

digits = load_digits()
images = digits.data.astype("uint8")  # (1797, 64), gray values 0..16, row by row
labels = digits.target.astype("uint8")  # (1797,), 0..9
assert images.shape == (1797, 64) and (images == digits.data).all()
np.savez_compressed(
    os.path.join(os.path.dirname(os.path.abspath(__file__)), "digits.npz"), images=images, labels=labels
)
