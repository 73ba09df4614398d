from tff_keyboard.aggregators.bounded_trimmed_mean import (
    BoundedTrimmedMeanFactory as BoundedTrimmedMean,
)
from tff_keyboard.aggregators.compression import CompressedUploadFactory as CompressedUpload
from tff_keyboard.aggregators.fedatt.aggregator import FedAttFactory as FedAtt
from tff_keyboard.aggregators.fedatt.client_noise import ClientNoiseFactory as ClientNoise
from tff_keyboard.aggregators.fedatt.private_fedatt import PrivateFedAttFactory as PrivateFedAtt
from tff_keyboard.aggregators.fedmed.aggregator import FedMedFactory as FedMed
from tff_keyboard.aggregators.guards.norm_bounds import clipping_factory as clipping
from tff_keyboard.aggregators.guards.norm_bounds import zeroing_factory as zeroing
from tff_keyboard.aggregators.guards.update_guard import UpdateGuardFactory as UpdateGuard
from tff_keyboard.aggregators.guards.weight_cap import WeightCapFactory as WeightCap
from tff_keyboard.aggregators.private.private_mean import PrivateMeanFactory as PrivateMean
from tff_keyboard.aggregators.robust_mean import MedianFactory as Median
from tff_keyboard.aggregators.robust_mean import TrimmedMeanFactory as TrimmedMean
from tff_keyboard.aggregators.upload_size import UploadSizeFactory as UploadSize
from tff_keyboard.algorithms.rule_check import check_rule

__all__ = [
    "BoundedTrimmedMean",
    "ClientNoise",
    "CompressedUpload",
    "FedAtt",
    "FedMed",
    "Median",
    "PrivateFedAtt",
    "PrivateMean",
    "TrimmedMean",
    "UpdateGuard",
    "UploadSize",
    "WeightCap",
    "check_rule",
    "clipping",
    "zeroing",
]
