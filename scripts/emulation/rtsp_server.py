"""An RTSP server of GStreamer's as a network camera; run by the system's Python, which has PyGObject.

``rtsp_server.py PORT [CERTIFICATE.pem]`` serves ``/cam`` at the loopback (0: any port, printed): colour bars and
noise, 320 x 240, 15 a second. With a certificate and its key in one file it speaks TLS alone, and asks for
``who:topsecret``.
"""

from __future__ import annotations

import sys

import gi

gi.require_version("Gst", "1.0")
gi.require_version("GstRtsp", "1.0")
gi.require_version("GstRtspServer", "1.0")
from gi.repository import Gio, GLib, Gst, GstRtspServer  # noqa: E402

PIPELINE = (
    "( videotestsrc is-live=true pattern=smpte ! video/x-raw,width=320,height=240,framerate=15/1 "
    "! videoconvert ! video/x-raw,format=I420 ! jpegenc ! rtpjpegpay name=pay0 pt=26 )"
)


def main(port: str, certificate: str | None = None) -> None:
    """Serve until it is killed."""
    Gst.init(None)
    server, factory = GstRtspServer.RTSPServer(), GstRtspServer.RTSPMediaFactory()
    server.set_address("127.0.0.1")
    server.set_service(port)
    factory.set_launch(PIPELINE)
    factory.set_shared(True)
    if certificate is not None:
        auth, token, rights = GstRtspServer.RTSPAuth(), GstRtspServer.RTSPToken(), GstRtspServer.RTSPPermissions()
        auth.set_tls_certificate(Gio.TlsCertificate.new_from_file(certificate))
        token.set_string("media.factory.role", "viewer")
        auth.add_basic(GstRtspServer.RTSPAuth.make_basic("who", "topsecret"), token)
        rights.add_permission_for_role("viewer", "media.factory.access", True)
        rights.add_permission_for_role("viewer", "media.factory.construct", True)
        factory.set_permissions(rights)
        server.set_auth(auth)
    server.get_mount_points().add_factory("/cam", factory)
    server.attach(None)
    print(server.get_bound_port(), flush=True)
    GLib.MainLoop().run()


if __name__ == "__main__":
    main(*sys.argv[1:])
