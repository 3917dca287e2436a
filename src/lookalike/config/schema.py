"""Every setting of an experiment, as frozen pydantic models; no behavior.

A value of None that means "chosen when the run starts" is chosen from the data, the device and the mode; the choice is
printed and written into the run's `experiment.yaml`, so a finished run contains no such None.
"""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

Mode = Literal["frozen", "partial", "finetune"]
Metric = Literal["map_at_r", "recall_at_1", "r_precision"]
Precision = Literal["32-true", "bf16-mixed", "16-mixed"]


class Settings(BaseModel):
    """A frozen group of settings; unknown names are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=(), allow_inf_nan=False)


class DataSettings(Settings):
    """How data is read, how it becomes training, validation and test classes, and pixels."""

    layout: str | None = Field(
        None,
        description="layout to insist on: one of `lookalike list datasets`, or folder; None: recognized by content",
    )
    verify: bool = Field(True, description="check published counts and that all listed files are there")
    ignore_labels: tuple[str, ...] = Field(
        (), description="labels of table rows that are left out, such as -1 for junk"
    )
    on_bad_file: Literal["skip", "fail"] = Field(
        "skip", description="images that cannot be decoded: skip: leave them out and name them; fail: stop"
    )
    split: Literal["auto", "named", "hold_out"] = Field(
        "auto",
        description="test classes: auto: as the data names them, else held out; named: require the data's own split; "
        "hold_out: ignore it",
    )
    validation_fraction: float = Field(
        0.15, gt=0, lt=1, description="fraction of the training classes held out for validation"
    )
    test_fraction: float = Field(
        0.3,
        gt=0,
        lt=1,
        description="fraction of classes held out for the test if the data names no test split",
    )
    image_size: int | None = Field(
        None,
        ge=16,
        le=4096,
        description="input resolution in pixels; None: the backbone's own, six sevenths of it without a GPU, "
        "and at most twice the images' median short side",
    )
    resize: int | None = Field(
        None,
        ge=16,
        le=4096,
        description="short side in pixels before the central crop; None: image_size, which crops nothing off the short "
        "side; the papers resize to 256 and crop 224",
    )
    crop_scale: tuple[float, float] = Field((0.4, 1.0), description="area range of random resized crops")
    flip: bool = Field(True, description="flip half of the training images horizontally")
    workers: int | None = Field(
        None,
        ge=0,
        description="decoding processes; None: the process's CPUs - 1, at most 8, and 0 for inference on a CPU",
    )

    @field_validator("ignore_labels", mode="before")
    @classmethod
    def _as_texts(cls, value: Any) -> Any:
        """YAML reads the label -1 as a number, and a label alone is a list of one."""
        labels = value if isinstance(value, list | tuple) else [value]
        numbers = [isinstance(label, int | float) and not isinstance(label, bool) for label in labels]
        return tuple(str(label) if number else label for label, number in zip(labels, numbers, strict=True))

    @field_validator("crop_scale")
    @classmethod
    def _is_range(cls, value: tuple[float, float]) -> tuple[float, float]:
        if not 0 < value[0] <= value[1] <= 1:
            raise ValueError("expected [low, high] with 0 < low <= high <= 1")
        return value


class ModelSettings(Settings):
    """The network: backbone, pooling, normalization, projection, and its closed-form start and finish."""

    backbone: str = Field("tf_efficientnet_lite0", description="a timm model; see `lookalike list backbones`")
    weights: str = Field(
        "auto",
        description="where the weights come from: package: an installed one; hub; none: random; the path of a file; "
        "auto: the package where one holds the backbone, else the hub",
    )
    pooling: Literal["average", "maximum", "average_plus_maximum", "k_max", "catavgmax", "concat"] = Field(
        "concat",
        description="how feature maps become one vector; catavgmax: average and maximum concatenated; concat: the "
        "same, each scaled to unit length first",
    )
    pooling_k: int = Field(1, ge=1, description="k of k-max pooling")
    norm: Literal["none", "layer_norm", "unit"] = Field(
        "none", description="normalization of the pooled vector; layer_norm has no scale or shift"
    )
    embedding_dim: int | None = Field(
        None,
        ge=1,
        description="width of an embedding; None: 512, or half the training images (a power of 2) if that is less",
    )
    start: Literal["whitened", "pca", "identity", "random", "kaiming", "none"] = Field(
        "whitened",
        description="projection before training; random: uniform, as torch; kaiming: normal, fan-out, no bias; "
        "none: no projection",
    )
    finish: Literal["whitened", "none"] = Field(
        "whitened",
        description="projection after training; whitened: computed from the trained features, kept unless train.metric "
        "of the validation classes clearly falls; none: as trained",
    )
    views: Literal[1, 2] | None = Field(
        None,
        description="2: embeddings average an image and its mirror image, which doubles the time to embed; None: "
        "2 if train.metric of the validation classes rises by it and data.flip is true, else 1",
    )
    precision: Literal["float32", "bfloat16"] | None = Field(
        None,
        description="number type in which the backbone embeds; None: bfloat16 on a CPU with instructions for it, where "
        "that is measured to be faster, else float32",
    )


class LossSettings(BaseModel):
    """A loss by name; every other key is an argument of its class, checked against the class's signature."""

    model_config = ConfigDict(frozen=True, extra="allow", protected_namespaces=())

    name: str = Field(
        "proxy_anchor",
        description="one of `lookalike list losses`; its arguments are settings too: loss.scale=16",
    )

    @property
    def arguments(self) -> dict[str, Any]:
        """The keyword arguments for the loss's class."""
        return dict(self.model_extra or {})


class BatchSettings(Settings):
    """Which images meet in a batch."""

    sampler: Literal["random", "balanced"] = Field(
        "random", description="which images meet; balanced: per_class images of each of some classes"
    )
    size: int = Field(90, ge=1, description="images per batch of the random sampler")
    classes: int = Field(
        8, ge=1, description="classes per batch of the balanced sampler, or of a loss that plans its batches"
    )
    per_class: int = Field(4, ge=1, description="images per class in a balanced batch")
    drop_last: bool = Field(
        False, description="random sampler: leave out the last batch of an epoch if it is smaller"
    )

    @property
    def images(self) -> int:
        """Images per batch of the chosen sampler."""
        return self.size if self.sampler == "random" else self.classes * self.per_class


class ScheduleSettings(Settings):
    """How learning rates fall, as a factor on every group's rate; see `lookalike.optim.schedules`."""

    name: Literal["constant", "step", "cosine", "linear", "plateau"] = Field(
        "cosine", description="how the learning rates fall; plateau: when train.metric stops rising"
    )
    warmup: float = Field(
        0.1, ge=0, lt=1, description="cosine, linear: share of all steps in which the rate rises from 0"
    )
    gamma: float = Field(0.5, gt=0, le=1, description="factor of each drop")
    every: int = Field(10, ge=1, description="step: epochs between drops")
    milestones: tuple[int, ...] = Field((), description="step: drop after these epochs instead")
    patience: int = Field(4, ge=0, description="plateau: epochs without a better train.metric before a drop")


class CompatSettings(Settings):
    """Quirks of authors' released code, for studies that reproduce its numbers; nobody else needs them."""

    random_proxies: bool = Field(
        False, description="proxies start at random, as in all papers' code, instead of at the class means"
    )
    eps: float = Field(1e-8, gt=0, description="eps of Adam and RMSprop; 1.0 and 0.01 in the papers' code")
    warmup_first: int = Field(1, ge=1, description="the first epoch of the warm-up; 2 in ProxyGML's code")
    warmup_resets_optimizer: bool = Field(
        False, description="clear the optimizer's state when the warm-up ends, as ProxyNCA++'s code does"
    )
    replay_delay: int = Field(
        0,
        ge=0,
        description="epochs by which a refit repeats the drops of a plateau schedule later; 1 in ProxyNCA++'s code",
    )
    batch_norm_momentum: float | None = Field(
        None,
        gt=0,
        le=1,
        description="momentum of batch norm's running statistics; 0.9 in Proxy-Anchor's code; None: the backbone's",
    )


class TrainSettings(Settings):
    """The loop: what trains, for how long, at which rates."""

    mode: Mode | None = Field(
        None,
        description="what trains: frozen: the projection; partial: the last stages too; finetune: everything; "
        "None: finetune with a GPU, partial without",
    )
    epochs: int | None = Field(
        None,
        ge=0,
        description="None: 30 in mode frozen, 20 in finetune, 4 in partial, there up to 12 where images are few",
    )
    patience: int | None = Field(
        None, ge=1, description="epochs without a better validation metric before training stops; None: never"
    )
    metric: Metric = Field("map_at_r", description="the validation metric that the best epoch is chosen by")
    warmup_epochs: int | None = Field(
        None,
        ge=0,
        description="first epochs, in which only projection and proxies train; None: 1 in mode finetune, else 0",
    )
    optimizer: Literal["adamw", "adam", "sgd", "rmsprop"] = Field(
        "adamw", description="optimizer of everything that trains"
    )
    lr: float | None = Field(None, gt=0, description="learning rate of the backbone; None: by mode")
    head_lr: float | None = Field(None, gt=0, description="learning rate of the projection; None: by mode")
    proxy_lr: float | None = Field(None, gt=0, description="learning rate of the proxies; None: by mode")
    proxy_optimizer: Literal["same", "row_sparse_adamw", "row_sparse_adamw_small"] = Field(
        "same",
        description="optimizer of the proxies; same: train.optimizer; row_sparse_adamw: a step updates only proxies "
        "with a gradient; row_sparse_adamw_small: likewise, with moments in a quarter of AdamW's memory",
    )
    shard_proxies: bool = Field(
        False, description="with several processes, each holds the proxies of its part of the classes"
    )
    weight_decay: float = Field(1e-4, ge=0, description="weight decay of everything that trains")
    momentum: float = Field(0.9, ge=0, lt=1, description="momentum of SGD and RMSprop")
    clip_value: float | None = Field(
        None, gt=0, description="clip each gradient entry to this size; None: no clipping"
    )
    clip_norm: float | None = Field(
        None, gt=0, description="clip the norm of all gradients to this; None: no clipping"
    )
    schedule: ScheduleSettings = ScheduleSettings()
    batch_norm: Literal["frozen", "frozen_affine", "train"] = Field(
        "frozen",
        description="batch norm during training; frozen: running statistics are fixed, scale and shift train; "
        "frozen_affine: both are fixed; train: both change",
    )
    frozen_stages: int | None = Field(
        None,
        ge=1,
        description="partial: how many of the first stages are frozen and cached; None: the backbone's own",
    )
    cached_views: int = Field(
        2,
        ge=1,
        description="partial: cached views per image: itself, its horizontal flip (with data.flip), random crops",
    )
    precision: Precision | None = Field(
        None,
        description="number type of a training step; None: bf16-mixed on a CUDA GPU and on a CPU with instructions for "
        "bfloat16 where that is measured to be faster, 16-mixed on a GPU without bfloat16, else 32-true",
    )
    accumulate: int = Field(1, ge=1, description="batches whose gradients are averaged before a step")
    refit: bool = Field(
        False,
        description="after selection, train again from the start on training and validation classes, for as many "
        "epochs as were best",
    )
    compat: CompatSettings = CompatSettings()

    @model_validator(mode="after")
    def _one_clip(self) -> "TrainSettings":
        if self.clip_value is not None and self.clip_norm is not None:
            raise ValueError("clip_value and clip_norm exclude each other; set one")
        return self
