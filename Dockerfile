# Serves an index over HTTP; the address with its token is printed, or the token is yours:
#   docker run -p 8000:8000 -v /my/index:/index:ro -e LOOKALIKE_TOKEN=... lookalike
#
#   docker build -t lookalike .                                  # PyTorch as pip finds it: on Linux with CUDA
#   docker build -t lookalike --build-arg TORCH_INDEX=URL .      # URL: the index of CPU wheels that PyTorch's
#                                                                # installation page names (a smaller image)
#   docker run --gpus all ...                                    # with CUDA: on the machine's GPUs
ARG PYTHON=3.12
FROM python:${PYTHON}-slim

ARG TORCH_INDEX=""
ENV PIP_NO_CACHE_DIR=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    LOOKALIKE_CACHE=/cache \
    HF_HOME=/cache/huggingface

# hadolint ignore=DL3013
RUN pip install ${TORCH_INDEX:+--index-url "$TORCH_INDEX"} torch torchvision

WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY src ./src
# hadolint ignore=DL3013
RUN pip install ".[serve]"

RUN useradd --create-home --uid 1000 lookalike && mkdir /cache && chown lookalike /cache
USER 1000
WORKDIR /home/lookalike
EXPOSE 8000
ENTRYPOINT ["lookalike"]
CMD ["serve", "/index", "--host", "0.0.0.0", "--port", "8000"]
