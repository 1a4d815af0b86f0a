"""Boxes read off a grid of features: what is asked of each cell, the loss, and what becomes of a head's output.

A detector here has one scale and no anchors, as FCOS has without its pyramid (Tian, Shen, Chen and He, ICCV 2019,
arXiv:1904.01355): every cell scores each class and says how far the four sides of a box lie from its centre.
`detection.Detection` and `instances.Instances` are tasks as those of `probes.maps` are, so `probes.dense` trains them.

Coordinates are continuous, x to the right and y down; 0 is the left or top edge of the frame, `size` (S) the other.  A
box is x0, y0, x1, y1 from edge to edge.  All arrays of boxes are padded rows:

- an object is x0, y0, x1, y1, label, flag.  A label of −1 says that there is none.  Flags are 0 for an object, 1 for
  one that is neither asked for nor held against a detector (VOC's `difficult`), 2 for a crowd, many objects in one box.
- a detection is x0, y0, x1, y1, score, label, best first; where there is none, the label is −1 and the rest 0.

An image without any object still trains: all its cells are background.  So that it can be told from a row that only
fills up a batch (−1 throughout), its first row has the flag `EMPTY` and the label −1.
"""

EMPTY = 3  # the flag of the first row of an image that exists and shows no object
