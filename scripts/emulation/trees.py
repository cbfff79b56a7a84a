"""Root folders of small arm64 Debian systems, kept in a cache: Debian 12 (what a 64-bit Raspberry Pi OS 12 is), and for
``cloud`` Debian 13 with cloud-init, netplan and NetworkManager (what Raspberry Pi OS 13 has).

Of Debian 12, mmdebstrap unpacks the packages and no more: their scripts would have to run under emulation, for minutes.
What they would have done and the boards need is done here by hand. Of Debian 13 everything runs, as in an image.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from pathlib import Path

QEMU = "qemu-aarch64-static"
BINFMT = Path("/proc/sys/fs/binfmt_misc")
# qemu's own default processor has what no Raspberry Pi 3 has, and computes int8 wrongly with it (ai-edge-litert 2.3).
PROCESSOR = "cortex-a53"
LIBRARIES = "usr/lib/aarch64-linux-gnu"
SUITES = {"userland": "bookworm", "vm": "bookworm", "cloud": "trixie"}
USERLAND = (
    "base-files,base-passwd,bash,coreutils,dash,findutils,grep,gzip,hostname,libc-bin,libfreenect0.5,libgomp1,"
    "libstdc++6,openssh-server,procps,python3,python3-numpy,sed,tar,util-linux"
)
BOARD = (
    "busybox-static,dbus,debianutils,iproute2,kmod,libpam-modules,libpam-modules-bin,libpam-runtime,"
    "linux-image-arm64,login,mount,ncurses-base,passwd,sudo,systemd,systemd-sysv,udev,v4l-utils"
)
# Of which hostapd and dnsmasq are no board's: they make the access point that its simulated radio meets.
CLOUD = (
    "apt,cloud-init,dnsmasq-base,e2fsprogs,hostapd,iw,locales,netplan.io,network-manager,tzdata,wireless-regdb,"
    "wpasupplicant"
)
PACKAGES = {"userland": USERLAND, "vm": f"{USERLAND},{BOARD},rauc-service", "cloud": f"{USERLAND},{BOARD},{CLOUD}"}
# Half of the kernel's modules, for hardware that no virtual board has.
LEFT_OUT = [
    "drivers/gpu",
    "drivers/net/wireless",
    "drivers/net/ethernet",
    "sound",
    "drivers/infiniband",
    "drivers/scsi",
    "fs/btrfs",
    "fs/xfs",
    "fs/ocfs2",
    "drivers/iio",
    "drivers/mtd",
    "drivers/staging",
    "drivers/bluetooth",
    "net/bluetooth",
    "drivers/media/dvb-frontends",
    "drivers/media/pci",
    "drivers/media/i2c",
    "drivers/media/tuners",
]
KEPT = "drivers/net/wireless/virtual"  # a radio without hardware
PAM = {
    "auth": "pam_unix.so nullok",
    "account": "pam_unix.so",
    "password": "pam_unix.so obscure yescrypt",
    "session": "pam_unix.so",
}


class NoBoard(Exception):
    """There can be no emulated board here; the text says what is missing."""


def need(*programs: str) -> None:
    """Raise ``NoBoard`` unless all of them are installed and we are root."""
    packages = {
        QEMU: "qemu-user-static",
        "qemu-system-aarch64": "qemu-system-arm",
        "qemu-img": "qemu-utils",
        "mke2fs": "e2fsprogs",
        "ssh-keygen": "openssh-client",
    }
    if os.geteuid():
        raise NoBoard("an emulated board needs root: mounts and device files are made for it")
    missing = sorted(packages.get(name, name) for name in programs if shutil.which(name) is None)
    if missing:
        raise NoBoard("an emulated board needs: apt-get install --no-install-recommends " + " ".join(missing))


def register() -> None:
    """Tell the kernel to run arm64 programs by qemu. It holds for the whole machine, until it is rebooted."""
    if not (BINFMT / "register").exists():
        run(["mount", "-t", "binfmt_misc", "binfmt_misc", str(BINFMT)])
    if not (BINFMT / "qemu-aarch64").exists():
        rule = Path("/usr/lib/binfmt.d/qemu-aarch64.conf")
        if not rule.exists():
            raise NoBoard(f"{rule} was expected of the package qemu-user-static, and is not there")
        (BINFMT / "register").write_text(rule.read_text())


def tree(cache: Path, kind: str) -> Path:
    """The root folder of ``userland``, ``vm`` or ``cloud``, made once and never changed after. Takes about a minute."""
    need("mmdebstrap", QEMU)
    recipe = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:12]
    root = cache / f"{kind}-{recipe}"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / f"{kind}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not root.exists():
            for old in cache.glob(f"{kind}-????????????*"):
                shutil.rmtree(old)
            part = root.with_name(root.name + ".part")
            _unpack(part, kind)
            if kind == "cloud":
                _sets_itself_up(part)
            else:
                _by_hand(part)
                _accounts(part)
            if kind == "vm":
                _bootable(part)
            part.rename(root)
    return root


def run(command: list[str], *, timeout_s: float = 120) -> str:
    """What a command printed. Raises ``NoBoard`` with the end of its complaint."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
    if done.returncode:
        raise NoBoard(f"{command[0]} failed: {done.stderr.strip()[-300:] or done.returncode}")
    return done.stdout


def _unpack(root: Path, kind: str) -> None:
    command = ["mmdebstrap", "--quiet", "--architectures=arm64", "--format=directory"]
    command += ["--variant=minbase", "--skip=check/qemu"] if kind == "cloud" else ["--variant=extract"]
    command += ["--aptopt=APT::Install-Recommends false", "--aptopt=Acquire::Languages none"]
    command += [f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in ("man", "doc", "locale", "info", "lintian")]
    modules = [f"{above}/lib/modules/*/kernel" for above in ("", "/usr")]
    command += [f"--dpkgopt=path-exclude={place}/{name}/*" for place in modules for name in LEFT_OUT]
    command += [f"--dpkgopt=path-include={place}/{KEPT}/*" for place in modules]
    if kind == "cloud":
        register()
    # Its firmware is the boot partition's: no initramfs is made.
    command = ["env", "INITRD=No", f"QEMU_CPU={PROCESSOR}", *command]
    run([*command, "--include=" + PACKAGES[kind], SUITES[kind], str(root)], timeout_s=1800)


def _by_hand(root: Path) -> None:
    for name in ("blas", "lapack"):  # of update-alternatives
        (root / LIBRARIES / f"lib{name}.so.3").symlink_to(f"{name}/lib{name}.so.3")
    shell = root / "bin/sh"
    if not shell.exists():
        shell.symlink_to("dash")


def _accounts(root: Path) -> None:
    etc = root / "etc"
    for name in ("passwd", "group"):
        shutil.copy(root / f"usr/share/base-passwd/{name}.master", etc / name)
    with (etc / "passwd").open("a") as file:
        file.write(
            "sshd:x:101:65534::/run/sshd:/usr/sbin/nologin\nmessagebus:x:102:102::/nonexistent:/usr/sbin/nologin\n"
        )
        file.write("pi:x:1000:1000::/home/pi:/bin/bash\n")
    with (etc / "group").open("a") as file:
        file.write("messagebus:x:102:\npi:x:1000:\n")
    # root and pi have no password: they come in by key alone.
    (etc / "shadow").write_text(
        "".join(f"{name}:*:19000:0:99999:7:::\n" for name in ("root", "sshd", "messagebus", "pi"))
    )
    (etc / "shadow").chmod(0o640)
    (etc / "hostname").write_text("raspberrypi\n")
    (etc / "hosts").write_text("127.0.0.1 localhost raspberrypi\n")
    for name, owner in (("root", 0), ("home/pi", 1000)):
        (root / name / ".ssh").mkdir(parents=True, mode=0o700)
        for folder in (root / name, root / name / ".ssh"):
            folder.chmod(0o700)
            shutil.chown(folder, owner, owner)
    (root / "run/sshd").mkdir(parents=True, exist_ok=True)
    # Of base-files: GLib's programs look for the system's bus below /var/run.
    (root / "var/run").rmdir()
    (root / "var/run").symlink_to("/run")


def _bootable(root: Path) -> None:
    etc = root / "etc"
    for kind, module in PAM.items():
        text = f"{kind} required {module}\n"
        (etc / f"pam.d/common-{kind}").write_text(text)
        if kind == "session":
            (etc / "pam.d/common-session-noninteractive").write_text(text)
    (etc / "sudoers.d").mkdir(exist_ok=True)
    (etc / "sudoers.d/010_pi-nopasswd").write_text("pi ALL=(ALL) NOPASSWD: ALL\n")
    (etc / "sudoers.d/010_pi-nopasswd").chmod(0o440)
    shutil.copy(root / "usr/share/openssh/sshd_config", etc / "ssh/sshd_config")
    (etc / "systemd/network").mkdir(parents=True, exist_ok=True)
    (etc / "systemd/network/10-dhcp.network").write_text("[Match]\nType=ether\n[Network]\nDHCP=yes\n")
    (etc / "fstab").write_text("/dev/root / ext4 defaults,noatime 0 0\n")
    (etc / "machine-id").write_text("uninitialized\n")
    register()

    def inside(*command: str) -> None:
        run(["chroot", str(root), *command])

    kernel = next((root / "lib/modules").iterdir()).name
    inside("depmod", kernel)
    inside("systemd-sysusers")
    inside("systemctl", "preset-all")
    inside("systemctl", "enable", "ssh", "systemd-networkd")
    inside("systemctl", "set-default", "multi-user.target")
    idle = "systemd-networkd-wait-online e2scrub_reap e2scrub_all.timer apt-daily.timer apt-daily-upgrade.timer"
    inside("systemctl", "mask", *idle.split(), "dpkg-db-backup.timer", "systemd-pstore")


def _sets_itself_up(root: Path) -> None:
    """cloud-init reads the boot partition, and NetworkManager has the network, as in a Raspberry Pi OS 13."""
    etc = root / "etc"
    (etc / "cloud/cloud.cfg.d/99_boot_partition.cfg").write_text(
        "datasource_list: [NoCloud, None]\ndatasource:\n  NoCloud:\n    fs_label: bootfs\n"
    )
    (etc / "netplan").mkdir(exist_ok=True)
    (etc / "netplan/00-renderer.yaml").write_text("network:\n  version: 2\n  renderer: NetworkManager\n")
    (etc / "netplan/00-renderer.yaml").chmod(0o600)
    (etc / "modules-load.d/radio.conf").write_text("mac80211_hwsim\n")
    (etc / "hostname").write_text("raspberrypi\n")
    (etc / "resolv.conf").unlink()
    # The harness comes in as root, by its key.
    (root / "root/.ssh").mkdir(mode=0o700, exist_ok=True)
    idle = ["apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer", "fstrim.timer", "hostapd.service"]
    run(["chroot", str(root), "systemctl", "mask", *idle])
