"""Schemathesis reads the OpenAPI document and tries to prove it wrong.

Its pytest plugin is off (see pyproject.toml): it would load for every run. The same cases come
from its programming interface.
"""

from collections import defaultdict

import pytest
from endpoints import ENDPOINTS
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode, openapi
from schemathesis.config import GenerationConfig, SchemathesisConfig
from schemathesis.checks import CHECKS

