"""The routes, as one ASGI application. There is no CORS answer: pages of other sites have no business here."""

from __future__ import annotations

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from fewbit.server.auth import RequireKey
from fewbit.server.errors import ApiError, Guarded, as_api_error, send_json
from fewbit.server.generate import Generate
from fewbit.server.page import page
from fewbit.server.protocol import read_chat, read_completion
from fewbit.server.service import Service
from fewbit.server.shape import ChatShape, CompletionShape


def build_app(service: Service, api_key: str | None = None) -> ASGIApp:
    async def models(scope: Scope, receive: Receive, send: Send) -> None:
        await send_json(send, {"object": "list", "data": [_model(service)]})

    async def model(scope: Scope, receive: Receive, send: Send) -> None:
        service.check_model(scope["path_params"]["name"])
        await send_json(send, _model(service))

    async def health(scope: Scope, receive: Receive, send: Send) -> None:
        trouble = "draining" if service.draining else service.engine.trouble()
        await send_json(send, {"status": trouble or "ok"}, 503 if trouble else 200)

    app = Starlette(
        routes=[
            Route("/", Guarded(page), methods=["GET"]),
            Route("/health", Guarded(health), methods=["GET"]),
            Route("/v1/models", Guarded(models), methods=["GET"]),
            Route("/v1/models/{name:path}", Guarded(model), methods=["GET"]),
            Route("/v1/chat/completions", Guarded(Generate(service, ChatShape, read_chat)), methods=["POST"]),
            Route(
                "/v1/completions",
                Guarded(Generate(service, CompletionShape, read_completion)),
                methods=["POST"],
            ),
        ],
        exception_handlers={HTTPException: _http_error, Exception: _any_error},
    )
    app.router.redirect_slashes = False
    return RequireKey(app, api_key) if api_key else app


def _model(service: Service) -> dict[str, object]:
    return {
        "id": service.model,
        "object": "model",
        "created": service.created,
        "owned_by": "fewbit",
        "max_model_len": service.engine.limits.max_context_tokens,
    }


async def _http_error(request: Request, fault: Exception) -> Response:
    assert isinstance(fault, HTTPException)
    method, path = request.method[:16], request.url.path[:100]
    message = {
        404: f"there is no route {path!r}",
        405: f"{path!r} does not take {method!r}",
    }.get(fault.status_code, fault.detail)
    return _response(ApiError(fault.status_code, message, code=None), dict(fault.headers or {}))


async def _any_error(request: Request, fault: Exception) -> Response:
    return _response(as_api_error(fault), {})


def _response(error: ApiError, headers: dict[str, str]) -> Response:
    return Response(msgspec.json.encode(error.body()), error.status, headers, "application/json")
