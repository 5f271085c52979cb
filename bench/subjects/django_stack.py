"""Django with djangorestframework-simplejwt and its blacklist app, refresh tokens rotated.

Its settings are the ones that its own documentation advises for production: bcrypt at the same
cost, connections that stay open, and on SQLite the write-ahead log and immediate transactions.
It has tables of its own. `python -m bench.subjects.django_stack` makes and fills them, and prints
the tokens as JSON.
"""

import json
import os
import sys
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import django
from django.conf import settings
from django.contrib.auth.hashers import BCryptPasswordHasher, make_password
from django.core.management import call_command
from django.core.wsgi import get_wsgi_application
from django.urls import path

HERE = "bench.subjects.django_stack"


class Hasher(BCryptPasswordHasher):
    """Django's own, at the cost that all subjects have."""

    rounds = int(os.environ["BCRYPT_ROUNDS"])


def database(url: str) -> dict[str, Any]:
    """Return the URL in Django's words."""
    parts = urlsplit(url)
    if parts.scheme == "sqlite":
        pragmas = "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL"
        options: dict[str, Any] = {"transaction_mode": "IMMEDIATE", "init_command": pragmas}
        return {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": parts.path[1:],
            "OPTIONS": {**options, "timeout": 30},
            "CONN_MAX_AGE": None,
        }
    host = parse_qs(parts.query).get("host", [parts.hostname or ""])[0]
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": parts.path[1:],
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": host,
        "PORT": parts.port or "",
        # As many for a process as the service has.
        "OPTIONS": {"pool": {"min_size": 1, "max_size": 8}},
    }


if not settings.configured:
    settings.configure(
        SECRET_KEY=os.environ["SECRET_KEY"],
        DEBUG=False,
        ALLOWED_HOSTS=["127.0.0.1"],
        ROOT_URLCONF=HERE,
        INSTALLED_APPS=[
            "django.contrib.auth",
            "django.contrib.contenttypes",
            "rest_framework",
            "rest_framework_simplejwt",
            "rest_framework_simplejwt.token_blacklist",
        ],
        MIDDLEWARE=["django.middleware.common.CommonMiddleware"],
        DATABASES={"default": database(os.environ["DATABASE_URL"])},
        DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
        PASSWORD_HASHERS=[f"{HERE}.Hasher"],
        USE_TZ=True,
        REST_FRAMEWORK={
            "DEFAULT_AUTHENTICATION_CLASSES": [
                "rest_framework_simplejwt.authentication.JWTAuthentication"
            ],
            "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
            "DEFAULT_PARSER_CLASSES": ["rest_framework.parsers.JSONParser"],
        },
        SIMPLE_JWT={
            "ACCESS_TOKEN_LIFETIME": timedelta(days=1),
            "REFRESH_TOKEN_LIFETIME": timedelta(days=30),
            "ROTATE_REFRESH_TOKENS": True,
            "BLACKLIST_AFTER_ROTATION": True,
            "UPDATE_LAST_LOGIN": True,
        },
    )
    django.setup()

from django.contrib.auth.models import User  # noqa: E402
from rest_framework import serializers  # noqa: E402
from rest_framework.decorators import (  # noqa: E402
    api_view,
    authentication_classes,
    permission_classes,
)
from rest_framework.permissions import AllowAny, IsAuthenticated  # noqa: E402
from rest_framework.response import Response  # noqa: E402
from rest_framework_simplejwt.tokens import RefreshToken  # noqa: E402
from rest_framework_simplejwt.views import TokenObtainPairView, TokenRefreshView  # noqa: E402


class ProfileSerializer(serializers.ModelSerializer):  # type: ignore[misc]
    firstName = serializers.CharField(source="first_name")
    lastName = serializers.CharField(source="last_name")

    class Meta:
        model = User
        fields = ["id", "username", "email", "firstName", "lastName", "is_active", "date_joined"]


class RegisterSerializer(ProfileSerializer):
    password = serializers.CharField(min_length=8, max_length=72, write_only=True)

    class Meta(ProfileSerializer.Meta):
        fields = ["id", "username", "email", "firstName", "lastName", "password"]

    def create(self, validated_data: dict[str, Any]) -> Any:
        return User.objects.create_user(**validated_data)


@api_view(["GET"])
@permission_classes([IsAuthenticated])
def verify(request: Any) -> Any:
    user = request.user
    return Response({"id": user.id, "username": user.username, "email": user.email})


@api_view(["GET"])
@permission_classes([IsAuthenticated])
def profile(request: Any) -> Any:
    return Response(ProfileSerializer(request.user).data)


@api_view(["POST"])
@authentication_classes([])
@permission_classes([AllowAny])
def register(request: Any) -> Any:
    serializer = RegisterSerializer(data=request.data)
    serializer.is_valid(raise_exception=True)
    serializer.save()
    return Response(serializer.data, status=201)


urlpatterns = [
    path("verify", verify),
    path("profile", profile),
    path("refresh", TokenRefreshView.as_view()),
    path("login", TokenObtainPairView.as_view()),
    path("register", register),
]
app = get_wsgi_application()


def fill(users: int, password: str) -> None:
    """Make the tables, add the users, and print what the load sends."""
    call_command("migrate", verbosity=0)
    password_hash = make_password(password)
    User.objects.bulk_create(
        (
            User(
                username=f"user{number:07}",
                email=f"user{number:07}@example.org",
                first_name="First",
                last_name="Last",
                password=password_hash,
            )
            for number in range(users)
        ),
        batch_size=1000,
    )
    found = list(User.objects.order_by("?")[:5000])
    refresh = [RefreshToken.for_user(user) for user in found]
    json.dump(
        {
            "owners": [user.username for user in found],
            "access": [str(token.access_token) for token in refresh],
            "refresh": [str(token) for token in refresh],
            "logins": [
                json.dumps({"username": user.username, "password": password}) for user in found
            ],
        },
        sys.stdout,
    )


if __name__ == "__main__":
    fill(int(sys.argv[1]), sys.argv[2])
