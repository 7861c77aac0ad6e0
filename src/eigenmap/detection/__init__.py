"""Transfer to detection and instance segmentation: Mask R-CNN with a C4 backbone, in plain torch.

detector = MaskRCNN(resnet50(), n_classes=80)
losses = detector(images, targets)
detections = detector.detect(images)
"""

from eigenmap.detection.boxes import box_iou, nms
from eigenmap.detection.mask_rcnn import Detections, MaskRCNN, Target
from eigenmap.detection.roi_align import roi_align
from eigenmap.detection.settings import Settings

__all__ = ["Detections", "MaskRCNN", "Settings", "Target", "box_iou", "nms", "roi_align"]
