# One image for every service: what differs is the module that is started (`python -m headgate.<name>`).
FROM python:3.11-slim AS build
RUN pip install --no-cache-dir uv==0.13.8
WORKDIR /src
COPY requirements.lock ./
COPY schemas schemas
COPY libs libs
COPY services services
ENV UV_LINK_MODE=copy UV_COMPILE_BYTECODE=1
# In the tree the package's schemas are a link to schemas/; a wheel needs the files.
RUN rm libs/common/src/headgate/common/avsc && cp -r schemas libs/common/src/headgate/common/avsc
# The lock also holds what tests need, so it constrains (versions and hashes) and the packages ask.
RUN uv venv /opt/headgate \
 && uv pip install --no-cache --no-sources --python /opt/headgate --constraints requirements.lock ./libs/common ./services/*

FROM python:3.11-slim
COPY --from=build /opt/headgate /opt/headgate
RUN groupadd --gid 10001 headgate \
 && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /var/lib/headgate headgate \
 && install -d -o headgate -g headgate /var/lib/headgate
ENV PATH=/opt/headgate/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    HEADGATE_STATE_DIR=/var/lib/headgate/state \
    HEADGATE_HEALTH_HOST=0.0.0.0
WORKDIR /var/lib/headgate
USER 10001:10001
CMD ["headgate", "--help"]
