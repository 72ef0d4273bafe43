# A server for one model, on CPUs: what `accord serve` needs, and nothing to train with.
#
#   docker build -t accord .
#   docker run --rm -p 5000:5000 -v "$PWD/demo/agree/onnx-int8:/model:ro" accord
#
# pip takes PyTorch from its default index, on Linux with several GB of CUDA libraries. For the CPU
# build give the index that PyTorch's install page names for it: --build-arg TORCH_INDEX=…
FROM python:3.11-slim

ARG TORCH_INDEX=""
WORKDIR /opt/accord
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY recipes recipes
COPY src src
RUN pip install --no-cache-dir ${TORCH_INDEX:+--extra-index-url "$TORCH_INDEX"} \
        --constraint constraints.txt '.[ct2,export,serve]' \
    && accord doctor

RUN useradd --create-home accord
USER accord
# Waiting threads of OpenMP are to sleep, not to spin.
ENV OMP_WAIT_POLICY=PASSIVE
EXPOSE 5000
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s CMD ["python", "-c", \
    "import urllib.request as r; r.urlopen('http://127.0.0.1:5000/health/ready', timeout=4)"]
ENTRYPOINT ["accord"]
CMD ["serve", "/model", "--host", "0.0.0.0"]
