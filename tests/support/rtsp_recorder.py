"""An RTSP server of GStreamer's that takes a stream of motion JPEG; run by the system's Python, which has PyGObject.

``rtsp_recorder.py FOLDER [LOGIN [CERTIFICATE.pem]]`` listens at the loopback on any port, printed, and writes each
picture of /hall to FOLDER. LOGIN is none, basic or digest: board, hunter2.
"""

import sys

import gi

gi.require_version("Gst", "1.0")
gi.require_version("GstRtsp", "1.0")
gi.require_version("GstRtspServer", "1.0")
from gi.repository import Gio, GLib, Gst, GstRtsp, GstRtspServer  # noqa: E402


def main(folder, login="none", certificate=None):
    Gst.init(None)
    server, factory = GstRtspServer.RTSPServer(), GstRtspServer.RTSPMediaFactory()
    server.set_address("127.0.0.1")
    server.set_service("0")
    factory.set_launch(f"( rtpjpegdepay name=depay0 ! multifilesink sync=false location={folder}/%05d.jpg )")
    factory.set_transport_mode(GstRtspServer.RTSPTransportMode.RECORD)
    auth, token, rights = GstRtspServer.RTSPAuth(), GstRtspServer.RTSPToken(), GstRtspServer.RTSPPermissions()
    if login != "none":
        token.set_string("media.factory.role", "board")
        if login == "basic":
            auth.add_basic(GstRtspServer.RTSPAuth.make_basic("board", "hunter2"), token)
        else:
            auth.set_supported_methods(GstRtsp.RTSPAuthMethod.DIGEST)
            auth.add_digest("board", "hunter2", token)
        rights.add_permission_for_role("board", "media.factory.access", True)
        rights.add_permission_for_role("board", "media.factory.construct", True)
        factory.set_permissions(rights)
    if certificate is not None:
        auth.set_tls_certificate(Gio.TlsCertificate.new_from_file(certificate))
    if login != "none" or certificate is not None:
        server.set_auth(auth)
    server.get_mount_points().add_factory("/hall", factory)
    server.attach(None)
    print(server.get_bound_port(), flush=True)
    GLib.MainLoop().run()


if __name__ == "__main__":
    main(*sys.argv[1:])
