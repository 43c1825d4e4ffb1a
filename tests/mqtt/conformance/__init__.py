"""Tests by the numbered statements of MQTT 5.0 and 3.1.1; docs/mqtt-conformance.md says which prove what."""
