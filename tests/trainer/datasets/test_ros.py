"""Recordings of ROS and MCAP, by the libraries' own writers: frames and labels by topic, series, refusals."""

import base64
import bz2
import json

import cv2
import lz4.frame
import numpy as np
import pytest
import zstandard

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer import datasets
from edgeveil.trainer.datasets.columns import read_table
from edgeveil.trainer.datasets.loaders import ros, topics
from edgeveil.trainer.recipe.data_section import SETS, data_at
from edgeveil.trainer.scaffold.given import Given, Steps
from edgeveil.trainer.scaffold.look import look, next_command
from edgeveil.trainer.scaffold.new import first_guess
from tests.support.output import in_process

mcap = pytest.importorskip("mcap.writer")
rosbag1 = pytest.importorskip("rosbags.rosbag1")
rosbag2 = pytest.importorskip("rosbags.rosbag2")

FRAMES, EACH = 240, 6  # of each stretch of one label
X = np.random.default_rng(0).integers(300, 4000, (FRAMES, 8, 6)).astype(np.uint16)
STRETCH = np.arange(FRAMES) // EACH
Y = np.where(STRETCH % 2, "stand", "sit")
Z = np.where(STRETCH // 2 % 2, "ann", "ben")
SECOND = 10**9
START = 1_700_000_000 * SECOND
DEPTH = "/device_0/sensor_0/Depth_0/image/data"  # of a RealSense camera
TRUTH = {"target": "/y", "sensitive": "/z"}


def made(version, kind, **fields):
    """A message of ROS's own types."""
    return ros.typestore(version).types[kind](**fields)


def header(version):
    """One without a time."""
    time = made(version, "builtin_interfaces/msg/Time", sec=0, nanosec=0)
    extra = {"seq": 0} if version == 1 else {}
    return made(version, "std_msgs/msg/Header", stamp=time, frame_id="", **extra)


def image(version, picture, encoding="mono16", padding=0):
    """sensor_msgs/Image, each row with some bytes behind it."""
    high, wide = picture.shape[:2]
    lines = np.pad(np.ascontiguousarray(picture).view(np.uint8).reshape(high, -1), ((0, 0), (0, padding)))
    about = {"height": high, "width": wide, "encoding": encoding, "is_bigendian": 0, "step": lines.shape[1]}
    return made(version, "sensor_msgs/msg/Image", header=header(version), data=lines.reshape(-1), **about)


def said(version):
    """(topic, time, message) of frames at 10 Hz, with a label where it changes, and one of an unknown frame before."""
    text = lambda word: made(version, "std_msgs/msg/String", data=word)  # noqa: E731
    yield DEPTH, START, image(version, X[0])
    for row in range(FRAMES):
        now = START + (row + 1) * SECOND // 10
        if row % EACH == 0:
            yield "/y", now, text(str(Y[row]))
            yield "/z", now, text(str(Z[row]))
        yield DEPTH, now, image(version, X[row], padding=row % 3)


def bag_of_ros_1(folder, compression=None):
    """A .bag as RealSense cameras write it: custom types next to standard ones, in compressed chunks."""
    store = ros.typestore(1)
    writer = rosbag1.Writer(folder / "a.bag")
    if compression is not None:
        writer.set_compression(compression)
    with writer:
        open_ = {}
        info = writer.add_connection(
            "/device_0/info", "realsense_msgs/msg/StreamInfo", msgdef="uint32 fps\n", md5sum="0" * 32
        )
        writer.write(info, START, b"\0\0\0\0")
        for topic, now, message in said(1):
            kind = message.__msgtype__
            if topic not in open_:
                open_[topic] = writer.add_connection(topic, kind, typestore=store)
            writer.write(open_[topic], now, store.serialize_ros1(message, kind))
    return "a.bag"


def bag_of_ros_2(folder, storage=None):
    """A folder with metadata.yaml and SQLite, or MCAP."""
    store, plugins = ros.typestore(2), rosbag2.StoragePlugin
    with rosbag2.Writer(folder / "bag", version=9, storage_plugin=storage or plugins.SQLITE3) as writer:
        open_ = {}
        for topic, now, message in said(2):
            kind = message.__msgtype__
            if topic not in open_:
                open_[topic] = writer.add_connection(topic, kind, typestore=store)
            writer.write(open_[topic], now, store.serialize_cdr(message, kind))
    return "bag"


def mcap_of_ros_2(folder):
    """A file of its own, with chunks by zstd."""
    made = bag_of_ros_2(folder, rosbag2.StoragePlugin.MCAP)
    (folder / made / "bag.mcap").rename(folder / "a.mcap")
    return "a.mcap"


def mcap_of_json(folder, name="a.mcap", names=None):
    """Foxglove's pictures and labels in JSON; ``names`` are other names of topics."""
    with (folder / name).open("wb") as file:
        writer = mcap.Writer(file, compression=mcap.CompressionType.LZ4)
        writer.start()
        open_ = {}
        for topic, now, message in said(2):
            topic = (names or {}).get(topic, topic)
            raw = hasattr(message, "encoding")
            kind = "foxglove.RawImage" if raw else "text"
            content = {"data": message.data}
            if raw:
                content = {one: getattr(message, one) for one in ("width", "height", "encoding", "step")}
                content["data"] = base64.b64encode(message.data.tobytes()).decode()
            if topic not in open_:
                schema = writer.register_schema(kind, "jsonschema", b"{}")
                open_[topic] = writer.register_channel(topic, "json", schema)
            writer.add_message(open_[topic], now, json.dumps(content).encode(), now)
        writer.finish()
    return name


ALL = {one.__name__: one for one in (bag_of_ros_1, bag_of_ros_2, mcap_of_ros_2, mcap_of_json)}


@pytest.fixture(params=ALL.values(), ids=ALL)
def given(request, tmp_path):
    """A recording of each kind, with its labels' topics."""
    return Given(data_at(str(tmp_path / request.param(tmp_path))), **TRUTH)


def test_frames_and_the_labels_of_their_time_come_back(given, capsys):
    assert given.kind in ("mcap", "rosbag")
    found = look(given)
    assert (found.rows, found.wrong, found.dtype, found.shape) == (FRAMES + 1, [], "uint16", (8, 6, 1))
    assert f'x is "{DEPTH}"' in found.text()
    assert {one.name for one in found.labels} == {"file", "time", "/y", "/z"}
    assert {one.name for one in found.labels if "y" in one.could_be} == {"/y", "/z"}
    assert given.source in next_command(given, found)
    data = datasets.load(first_guess(given))
    np.testing.assert_array_equal(data.x[..., 0], X)
    assert np.array(data.y_names)[data.y].tolist() == Y.tolist()
    assert np.array(data.z_names)[data.z].tolist() == Z.tolist()
    assert data.cluster_kind == "session"
    assert data.cluster.tolist() == STRETCH.tolist()  # frames of one stretch resemble each other
    assert "1 row without a label left out, 240 kept" in capsys.readouterr().err


@pytest.mark.parametrize("method", ["BZ2", "LZ4"])
def test_chunks_of_a_bag_are_unpacked(tmp_path, method):
    place = bag_of_ros_1(tmp_path, getattr(rosbag1.Writer.CompressionFormat, method))
    np.testing.assert_array_equal(read_table("rosbag", tmp_path / place).arrays[DEPTH].stacked()[1:, ..., 0], X)


def test_a_chunk_that_swells_is_refused(monkeypatch):
    monkeypatch.setattr(ros, "MOST_CHUNK", 2**20)
    pack = {"zstd": zstandard.ZstdCompressor().compress, "lz4": lz4.frame.compress, "bz2": bz2.compress}
    for method, function in pack.items():
        assert ros._unpacked(method, function(bytes(2**20))) == bytes(2**20)
        with pytest.raises(ValueError, match="a chunk has more than 1 MB"):
            ros._unpacked(method, function(bytes(2**20 + 1)))
    with pytest.raises(ValueError, match="compressed by 'xz'"):
        ros._unpacked("xz", b"")


def test_the_swollen_chunk_of_each_container_is_one_sentence(tmp_path, monkeypatch):
    files = [bag_of_ros_1(tmp_path, rosbag1.Writer.CompressionFormat.LZ4), mcap_of_ros_2(tmp_path)]
    monkeypatch.setattr(ros, "MOST_CHUNK", 100)
    for name in files:
        with pytest.raises(BadInput, match=r"cannot be read .a chunk has more than"):
            read_table("mcap", tmp_path / name)


def test_a_definition_that_comes_with_a_file_is_never_code(given, tmp_path, monkeypatch, capsys):
    from rosbags.typesys.store import Typestore

    ros.typestore(1), ros.typestore(2)  # of ROS's own types
    monkeypatch.setattr(Typestore, "register", None)  # runs code made of definitions
    assert look(given).wrong == []
    if given.path.suffix != ".bag":
        return
    assert 'left out are "/device_0/info": their types are not ROS\'s own' in capsys.readouterr().err
    with pytest.raises(
        BadInput, match=r"realsense_msgs/msg/StreamInfo, whose definition comes with the file.*is not run"
    ):
        read_table("rosbag", given.path, x="/device_0/info")


def test_a_recording_that_is_cut_short_or_none_is_one_sentence(given, monkeypatch, capsys):
    for file in SETS[given.kind].load().files(given.path):
        data = file.read_bytes()
        file.write_bytes(data[: len(data) // 2])
    run = in_process(monkeypatch, capsys)
    code, out, error = run("data", "inspect", given.source, "--target", "/y", "--sensitive", "/z")
    assert (code, out) == (2, "")
    assert error.startswith("error: ")
    assert error.count("\n") == 1


def test_a_missing_package_is_refused_with_its_line(given, monkeypatch):
    for module in ("rosbags", "mcap"):
        with monkeypatch.context() as patch:
            patch.setitem(ros.importlib.sys.modules, module, None)
            with pytest.raises(
                BadInput, match=rf"read with {module}, which is not installed: pip install 'edgeveil\[ros\]'"
            ):
                read_table(given.kind, given.path)


def test_labels_from_a_csv_of_files_and_seconds(tmp_path):
    for name in ("one", "two"):
        (tmp_path / "bags" / name).mkdir(parents=True)
        place = bag_of_ros_1(tmp_path / "bags" / name)
        (tmp_path / "bags" / name / place).rename(tmp_path / f"bags/{name}.bag")
        (tmp_path / "bags" / name).rmdir()
    rows = [
        f"{name}.bag,{n},{n + 1},{('in', 'out')[n % 2]},{('a', 'b')[n // 2 % 2]}"
        for name in ("one", "two")
        for n in range(24)
    ]
    (tmp_path / "labels.csv").write_text("\n".join(["file,start,end,y,z", *rows]))
    given = Given(data_at(str(tmp_path / "bags")), "y", "z", labels=tmp_path / "labels.csv")
    assert look(given).wrong == []
    data = datasets.load(first_guess(given))
    assert len(data.x) == 480
    assert np.array(data.y_names)[data.y][:20].tolist() == ["in"] * 10 + ["out"] * 10
    assert len(np.unique(data.cluster)) == 48
    (tmp_path / "labels.csv").write_text("\n".join(["file,start,end,y,z", rows[0], rows[0]]))
    with pytest.raises(BadInput, match="row 2 meets another row"):
        datasets.load(first_guess(given))
    (tmp_path / "labels.csv").write_text("file,start,end,y,z\nother.bag,0,1,in,a\n")
    with pytest.raises(BadInput, match="row 1 has no sample of"):
        datasets.load(first_guess(given))


def imu(folder, name, phase):
    """A recording of motion alone, at 50 Hz, with a label that holds from its beginning."""
    store = ros.typestore(2)
    vector = lambda *v: made(2, "geometry_msgs/msg/Vector3", **dict(zip("xyz", v, strict=True)))  # noqa: E731
    turn = made(2, "geometry_msgs/msg/Quaternion", x=0.0, y=0.0, z=0.0, w=1.0)
    with rosbag2.Writer(folder / name, version=9, storage_plugin=rosbag2.StoragePlugin.MCAP) as writer:
        motion = writer.add_connection("/imu", "sensor_msgs/msg/Imu", typestore=store)
        label = writer.add_connection("/y", "std_msgs/msg/String", typestore=store)
        words = store.serialize_cdr(made(2, "std_msgs/msg/String", data=name[0]), "std_msgs/msg/String")
        writer.write(label, START, words)
        for step in range(200):
            more = {
                f"{one}_covariance": np.zeros(9) for one in ("orientation", "angular_velocity", "linear_acceleration")
            }
            about = {
                "angular_velocity": vector(0.0, 0.0, 1.0),
                "linear_acceleration": vector(np.sin(step / 5 + phase), 1.0, 2.0),
            }
            message = made(2, "sensor_msgs/msg/Imu", header=header(2), orientation=turn, **about, **more)
            writer.write(motion, START + step * SECOND // 50, store.serialize_cdr(message, "sensor_msgs/msg/Imu"))
    (folder / name / f"{name}.mcap").rename(folder / f"{name}.mcap")
    (folder / name / "metadata.yaml").unlink()
    (folder / name).rmdir()


def test_motion_becomes_windows_of_a_series(tmp_path):
    (tmp_path / "bags").mkdir()
    for number in range(4):
        imu(tmp_path / "bags", f"{'ab'[number % 2]}{number:02d}", number)
    rows = [f"{'ab'[n % 2]}{n:02d}.mcap,{'uv'[n // 2 % 2]}" for n in range(4)]
    (tmp_path / "about.csv").write_text("\n".join(["file,z", *rows]))
    table = read_table("mcap", tmp_path / "bags/a00.mcap", x="/imu")
    assert {"linear_acceleration.x", "angular_velocity.z", "time", "/y"} <= set(table.columns)
    assert not any("covariance" in name or "header" in name for name in table.columns)
    steps = Steps.parse(
        ["rate=50", "channels=linear_acceleration.x:m/s2,angular_velocity.z:rad/s", "window=50", "hop=50"]
    )
    given = Given(data_at(str(tmp_path / "bags")), "/y", "/y", steps=steps, x="/imu")
    with pytest.raises(BadInput, match="expected two columns"):
        first_guess(given)
    given = Given(given.source, "y", "z", labels=tmp_path / "about.csv", steps=steps, x="/imu")
    with pytest.raises(BadInput, match='no column "y"'):
        datasets.own(first_guess(given), given.kind, given.path)
    (tmp_path / "about.csv").write_text("\n".join(["file,z,y", *(f"{row},{row[0]}" for row in rows)]))
    data = datasets.own(first_guess(given), given.kind, given.path)
    assert data.x.shape == (16, 50, 2)
    np.testing.assert_allclose(data.x[0, :, 0], np.sin(np.arange(50) / 5), atol=1e-6)
    assert data.y_names == ("a", "b")


def test_which_topic_is_x_is_asked_with_what_there_is(tmp_path):
    store = ros.typestore(2)
    with rosbag2.Writer(tmp_path / "bag", version=9) as writer:
        for topic in ("/left", "/right"):
            to = writer.add_connection(topic, "sensor_msgs/msg/Image", typestore=store)
            writer.write(to, START, store.serialize_cdr(image(2, X[0]), "sensor_msgs/msg/Image"))
        scan = dict.fromkeys(
            ("angle_min", "angle_max", "angle_increment", "time_increment", "scan_time", "range_min", "range_max"), 0.0
        )
        to = writer.add_connection("/scan", "sensor_msgs/msg/LaserScan", typestore=store)
        ranges = np.arange(9, dtype=np.float32)
        message = made(2, "sensor_msgs/msg/LaserScan", header=header(2), ranges=ranges, intensities=ranges + 1, **scan)
        writer.write(to, START, store.serialize_cdr(message, "sensor_msgs/msg/LaserScan"))
    with pytest.raises(BadInput, match=r"which topic is x. It has /left .sensor_msgs/msg/Image, 1., .*#TOPIC") as one:
        read_table("rosbag", tmp_path / "bag")
    assert "\n" not in str(one.value)
    with pytest.raises(BadInput, match=r"there is no topic /lift.*left"):
        read_table("rosbag", tmp_path / "bag", x="/lift")
    found = read_table("rosbag", tmp_path / "bag", x="/scan.intensities")
    assert found.arrays["/scan.intensities"].stacked().tolist() == [(ranges + 1).tolist()]
    assert set(read_table("rosbag", tmp_path / "bag", x="/scan").arrays) == {"/scan.ranges", "/scan.intensities"}


@pytest.mark.parametrize("kind", ["u1", "u2", "f4", "rgb"])
def test_an_mcap_file_of_ours_is_read_back(tmp_path, kind):
    x = (
        np.random.default_rng(1)
        .integers(0, 200, (6, 4, 5, 3 if kind == "rgb" else 1))
        .astype(kind[-2:] if kind != "rgb" else "u1")
    )
    y, seconds = np.array(["sit", "sit", "stand", "stand", "sit", "sit"]), np.arange(6) / 10
    ros.write(str(tmp_path / "a.mcap"), iter(x), seconds, {"y": y})
    found = read_table("mcap", tmp_path / "a.mcap")
    np.testing.assert_array_equal(found.arrays["/x"].stacked(), x)
    assert found.arrays["/x"].stacked().dtype == x.dtype
    assert found.columns["/y"].classes.tolist() == y.tolist()
    np.testing.assert_allclose(found.columns["time"].values, seconds)
    for wrong in (x.astype("f8"), x[..., 0]):
        with pytest.raises(BadInput, match=r"MCAP takes vectors, and pictures of 8 or 16 bits or float32; .*NAME.npz"):
            ros.write(str(tmp_path / "b.mcap"), iter(wrong), seconds, {"y": y})


@pytest.mark.parametrize("dtype", ["u1", "i2", "f4", "f8"])
def test_vectors_in_an_mcap_file_of_ours_are_read_back(tmp_path, dtype):
    x = np.random.default_rng(1).integers(0, 100, (5, 7)).astype(dtype)
    ros.write(str(tmp_path / "a.mcap"), iter(x), np.arange(5) / 10, {"y": np.array(list("aabbb"))})
    found = read_table("mcap", tmp_path / "a.mcap", x="/x")
    (name,) = found.arrays
    np.testing.assert_array_equal(found.arrays[name].stacked(), x)
    assert found.columns["/y"].classes.tolist() == list("aabbb")


@pytest.mark.parametrize("encoding", ["mono8", "rgb8", "bgr8", "32FC1", "16UC1", "yuv422"])
def test_each_encoding_of_a_picture(encoding):
    kind, channels = topics.ENCODINGS.get(encoding, ("u1", 2))
    x = np.random.default_rng(1).integers(0, 200, (4, 6, channels)).astype(kind)
    fields = vars(image(2, x, encoding, padding=5))
    if encoding == "yuv422":
        with pytest.raises(ValueError, match="its encoding is 'yuv422'; mono8,"):
            topics._picture(fields)
        return
    np.testing.assert_array_equal(topics._picture(fields), x[:, :, ::-1] if encoding == "bgr8" else x)
    with pytest.raises(ValueError, match="are no picture of 6 x 4"):
        topics._picture({**fields, "data": fields["data"][:-6]})
    with pytest.raises(ValueError, match="are no picture"):
        topics._picture({**fields, "height": 2**31})


def test_compressed_pictures_and_depth(tmp_path):
    depth = cv2.imencode(".png", X[0])[1].tobytes()
    assert topics._packed({"format": "16UC1; compressedDepth png", "data": bytes(12) + depth}) == depth
    assert topics._packed({"format": "png", "data": depth}) == depth


def test_a_folder_that_is_compressed_as_a_whole_is_refused(tmp_path):
    (tmp_path / "metadata.yaml").write_text("")
    (tmp_path / "a.db3.zstd").write_bytes(b"")
    with pytest.raises(BadInput, match=r"a.db3.zstd is compressed as a whole: unpack it with zstd -d"):
        read_table("rosbag", tmp_path)
