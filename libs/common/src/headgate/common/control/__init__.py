"""The control plane as a library: validating and writing triggers and sources, reading what happened.

Plain, blocking functions over Kafka. The CLI is a thin layer on it; the API will be another one.
"""
