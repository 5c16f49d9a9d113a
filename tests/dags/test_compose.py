"""docker-compose.yml without a container engine: the compose specification's schema, and what the schema cannot see.

The schema is `schema/compose-spec.json` of compose-go v2.16.2 (Apache License 2.0).
"""

import configparser
import json
import re
import subprocess
from types import SimpleNamespace

import jsonschema
import pytest
import yaml

from tests.airflow_home import ROOT

TEXT = (ROOT / "docker-compose.yml").read_text()
COMPOSE = yaml.safe_load(TEXT)
SERVICES = COMPOSE["services"]
SCHEMA = json.loads((ROOT / "tests" / "data" / "compose-spec.json").read_text())
AIRFLOW = {"airflow-init", "airflow-apiserver", "airflow-scheduler", "airflow-dag-processor", "airflow-triggerer"}
ONE_SHOT = {"airflow-init", "keys"}
SPARK = {"spark-master", "spark-worker"}
DOCKERFILE = (ROOT / "Dockerfile").read_text()
WITHOUT_PORT = {"spark-worker"}


def _errors(document):
    return [error.message for error in jsonschema.Draft202012Validator(SCHEMA).iter_errors(document)]


def test_it_follows_the_compose_specification():
    assert _errors(COMPOSE) == []


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param({"image": "a:1", "imagee": "b"}, id="an unknown key"),
        pytest.param({"image": "a:1", "ports": "8080:8080"}, id="ports are no list"),
        pytest.param({"image": "a:1", "healthcheck": {"tests": "true"}}, id="an unknown key of a health check"),
    ],
)
def test_the_schema_would_notice(broken):
    assert _errors({"services": {"one": broken}})


def test_the_parts_are_those_that_the_pipeline_needs():
    assert set(SERVICES) == {
        *AIRFLOW,
        *SPARK,
        *("keys", "postgres", "zookeeper", "kafka1", "kafka2", "kafka3", "s3"),
    }


def test_every_dependency_exists_and_its_condition_can_be_met():
    for name, service in SERVICES.items():
        for other, how in service.get("depends_on", {}).items():
            assert other in SERVICES, f"{name} depends on {other}"
            condition = how["condition"]
            assert condition in {"service_healthy", "service_completed_successfully"}
            assert ("healthcheck" in SERVICES[other]) == (condition == "service_healthy"), f"{name} → {other}"
            assert (other in ONE_SHOT) == (condition == "service_completed_successfully")


def test_dependencies_have_no_cycle():
    def visit(name, path):
        assert name not in path, " → ".join([*path, name])
        for other in SERVICES[name].get("depends_on", {}):
            visit(other, [*path, name])

    for name in SERVICES:
        visit(name, [])


def test_everything_that_stays_up_has_a_health_check_and_restarts():
    for name, service in SERVICES.items():
        if name in ONE_SHOT:
            assert service["restart"] == "no"
        else:
            assert service["restart"] == "unless-stopped"
            assert "healthcheck" in service or name in WITHOUT_PORT


def test_the_linter_of_dockerfiles_finds_nothing():
    found = subprocess.run(["hadolint", "--no-color", ROOT / "Dockerfile"], capture_output=True, text=True, check=False)
    assert (found.returncode, found.stdout) == (0, "")


def test_the_jars_of_a_drill_are_in_the_image_where_the_workers_look():
    (folder,) = re.findall(r"^ENV KAFKA_MAINTENANCE_JARS=(\S+)$", DOCKERFILE, re.MULTILINE)
    assert f"KAFKA_MAINTENANCE_JARS={folder}\n" in DOCKERFILE[: DOCKERFILE.index("servers.broker_jvm")], (
        "recorded classes name their path"
    )
    assert f"COPY --from=jars {folder}/kafka-jars {folder}/kafka-jars\n" in DOCKERFILE
    before = DOCKERFILE[: DOCKERFILE.index("s3a_jars fetch")]
    assert before.rindex("FROM jvm AS jars") > before.index("openjdk-17-jre-headless"), (
        "Ivy, which fetches them, needs Java"
    )


def test_every_image_is_pinned_by_a_tag():
    for name, service in SERVICES.items():
        tag = _default(service["image"]).rpartition(":")[2]
        assert re.fullmatch(r"\d+(\.\d+)+", tag), f"{name}: {service['image']}"
    stages = set(re.findall(r"^FROM \S+ AS (\S+)$", DOCKERFILE, re.MULTILINE))
    bases = set(re.findall(r"^\s*FROM (\S+)", TEXT + DOCKERFILE, re.MULTILINE)) - stages
    (default,) = re.findall(r"^ARG PYTHON_IMAGE=(\S+)$", DOCKERFILE, re.MULTILINE)
    bases = [default if base == "${PYTHON_IMAGE}" else _default(base) for base in bases]
    assert bases
    assert all(":" in base and not base.endswith(":latest") for base in bases)
    assert re.findall(r"go install \S+@(\S+)", TEXT) == ["v1.8.0"]


def _default(image):
    """Of `${NAME:-image}`."""
    return re.sub(r"^\$\{\w+:-(.*)\}$", r"\1", image)


def test_each_image_of_a_registry_may_be_set_to_a_digest():
    taken = {service["image"] for service in SERVICES.values() if not service["image"].startswith("kafka-maintenance-")}
    taken |= set(re.findall(r"^\s*FROM (\S+)", TEXT, re.MULTILINE))
    names = [re.fullmatch(r"\$\{(\w+_IMAGE):-.+\}", image) for image in taken]
    assert len(names) == 5
    assert all(names), taken
    assert SERVICES["airflow-init"]["build"]["args"] == ["PYTHON_IMAGE"]


def test_nobody_runs_as_root():
    """Kafka's and ZooKeeper's images say themselves that they run as `appuser`."""
    own = {name for name, service in SERVICES.items() if service["image"].startswith("kafka-maintenance-")}
    foreign = {name for name, service in SERVICES.items() if "confluentinc/" in service["image"]}
    assert {"USER s3", "USER 50000"} <= {line.strip() for line in (TEXT + DOCKERFILE).splitlines()}
    assert SERVICES["postgres"]["user"] == "postgres"
    assert SERVICES.keys() - own - foreign == {"postgres"}
    assert all(service["cap_drop"] == ["ALL"] for service in SERVICES.values())


def test_the_keys_are_made_without_a_network_in_folders_that_the_user_of_the_image_owns():
    """A new volume gets the owner of the folder that it is mounted over."""
    assert SERVICES["keys"]["network_mode"] == "none"
    folders = {volume.split(":")[1] for volume in SERVICES["keys"]["volumes"]}
    made = re.search(r"mkdir -p (.+) \\\n && chown -R airflow /opt/airflow\n", DOCKERFILE)
    assert folders <= set(made[1].split())


def test_images_without_a_build_come_from_a_registry():
    built = {service["image"] for service in SERVICES.values() if "build" in service}
    ours = {service["image"] for service in SERVICES.values() if service["image"].startswith("kafka-maintenance-")}
    assert ours == built


def test_ports_are_published_on_loopback_only_and_differ():
    published = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert all(port.startswith("127.0.0.1:") for port in published)
    defaults = [re.sub(r"\$\{\w+:-(\d+)\}", r"\1", port).split(":")[1] for port in published]
    assert len(set(defaults)) == len(defaults) == 6


def test_every_variable_has_a_default():
    names = re.findall(r"(?<!\$)\$\{(\w+)([^}]*)\}", TEXT)
    assert names
    assert [name for name, rest in names if not rest.startswith(":-")] == []


def test_volumes_are_declared_and_used_and_host_paths_exist():
    used = set()
    for service in SERVICES.values():
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            if source.startswith("./"):
                assert (ROOT / source).is_dir(), source
                assert volume.endswith(":ro")
            else:
                used.add(source)
    assert used == set(COMPOSE["volumes"])


def test_all_parts_of_airflow_share_image_environment_and_folders():
    parts = [SERVICES[name] for name in sorted(AIRFLOW)]
    for part in parts:
        assert part["image"] == parts[0]["image"]
        assert part["volumes"] == parts[0]["volumes"]
        common = SERVICES["airflow-apiserver"]["environment"]
        assert common.items() <= part["environment"].items()


def test_every_airflow_setting_exists():
    from airflow.configuration import conf

    environment = SERVICES["airflow-apiserver"]["environment"]
    settings = [name.removeprefix("AIRFLOW__").split("__") for name in environment if name.startswith("AIRFLOW__")]
    known = [(section.lower(), key.lower().removesuffix("_cmd")) for section, key in settings]
    assert [pair for pair in known if pair[1] not in conf.configuration_description[pair[0]]["options"]] == []
    secret = [(s.lower(), k.lower().removesuffix("_cmd")) for s, k in settings if k.endswith("_CMD")]
    assert [pair for pair in secret if pair not in conf.sensitive_config_values] == []


def test_a_task_is_mapped_over_more_clusters_than_airflow_lets_by_itself():
    chart = yaml.safe_load((ROOT / "docs" / "helm-values.yaml").read_text(encoding="utf-8"))
    of_compose = SERVICES["airflow-apiserver"]["environment"]["AIRFLOW__CORE__MAX_MAP_LENGTH"]
    assert of_compose == chart["config"]["core"]["max_map_length"] == "10000"


def test_its_connections_variables_and_settings_are_read_by_our_code():
    from airflow.sdk import Connection

    from kafka_maintenance.connections.clusters import CLUSTERS_VARIABLE, cluster_from, names_from
    from kafka_maintenance.connections.spark import SPARK_CONNECTION, spark_settings_from
    from kafka_maintenance.connections.store import STORE_CONNECTION, STORE_VARIABLE, store_settings_from
    from kafka_maintenance.operations.analysis.run import works_in_place
    from kafka_maintenance.provider.info import get_provider_info
    from kafka_maintenance.tasks.settings import PREFIX, Settings

    environment = {
        name: re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", value)
        for name, value in SERVICES["airflow-apiserver"]["environment"].items()
    }
    names = names_from(environment[f"AIRFLOW_VAR_{CLUSTERS_VARIABLE.upper()}"])
    assert names == ("compose",)
    cluster = Connection.from_json(environment["AIRFLOW_CONN_COMPOSE"], conn_id="compose")
    assert (
        cluster_from("compose", cluster).address.zookeeper
        == SERVICES["kafka1"]["environment"]["KAFKA_ZOOKEEPER_CONNECT"]
    )
    store = Connection.from_json(environment[f"AIRFLOW_CONN_{STORE_CONNECTION.upper()}"], conn_id="store")
    assert {cluster.conn_type, store.conn_type} == {
        each["connection-type"] for each in get_provider_info()["connection-types"]
    }
    uri = environment[f"AIRFLOW_VAR_{STORE_VARIABLE.upper()}"]
    settings = store_settings_from(uri, store)
    assert settings.endpoint_url == "http://s3:7070"
    assert settings.access_key is settings.secret_key is None, "boto3 finds the keys in the file that is mounted"
    spark = Connection.from_json(environment[f"AIRFLOW_CONN_{SPARK_CONNECTION.upper()}"], conn_id="spark")
    assert spark.host == "local[2]"
    spark_settings = spark_settings_from(
        Connection.from_json(json.dumps({**json.loads(spark.as_json()), "host": "spark://spark-master:7077"}))
    )
    assert works_in_place(SimpleNamespace(uri=uri), spark_settings), (
        "the workers read what the driver is told, so they need all of it:"
    )
    assert spark_settings.jars == ("/opt/s3a/*.jar",)
    assert re.search(r"s3a_jars fetch .*&& mv \S+/s3a-jars/\*/\*\.jar /opt/s3a/", DOCKERFILE, re.DOTALL)
    assert spark_settings.conf["spark.hadoop.fs.s3a.endpoint"] == settings.endpoint_url
    assert spark_settings.conf["spark.hadoop.fs.s3a.aws.credentials.provider"].endswith(".ProfileCredentialsProvider")
    for name in ("airflow-scheduler", *SPARK):
        found = SERVICES[name]["environment"]["AWS_SHARED_CREDENTIALS_FILE"]
        assert f"s3-keys:{found.rpartition('/')[0]}:ro" in SERVICES[name]["volumes"]
    ours = {name.removeprefix(PREFIX).lower() for name in environment if name.startswith(PREFIX)}
    assert ours <= set(Settings.__dataclass_fields__)


def test_no_password_stands_in_the_file_and_keys_go_only_where_they_are_needed():
    assert re.findall(r"(?i)password: *\S|secret_key: *\S|password=", TEXT) == []
    mounts = {
        name: {volume.split(":")[0] for volume in service.get("volumes", [])} for name, service in SERVICES.items()
    }
    assert {name for name in mounts if "database-keys" in mounts[name]} == {*AIRFLOW, "keys", "postgres"}
    assert {name for name in mounts if "s3-keys" in mounts[name]} == {*AIRFLOW, *SPARK, "keys", "s3"}
    assert {name for name in mounts if "airflow-state" in mounts[name]} == AIRFLOW, "Spark needs no key of Airflow"


def test_the_keys_are_made_once_and_kept(tmp_path):
    """The shell script of the service `keys`, run twice on folders instead of volumes."""
    script = SERVICES["keys"]["command"][-1].replace("$$", "$").replace("/opt/airflow/keys/", f"{tmp_path}/")
    for folder in ("database", "s3"):
        (tmp_path / folder).mkdir()
    found, written = [], []
    for _ in range(2):
        subprocess.run(["bash", "-euc", script], check=True)
        found.append({path.name: path.read_text() for path in sorted(tmp_path.glob("*/*"))})
        written.append([path.stat().st_mtime_ns for path in sorted(tmp_path.glob("*/*"))])
        assert {path.stat().st_mode & 0o777 for path in tmp_path.glob("*/*")} == {0o444}
    assert (found[0], written[0]) == (found[1], written[1]), "nobody may write a file of mode 444 again"
    assert len({found[0][name] for name in ("password", "access_key", "secret_key")}) == 3
    assert all(re.fullmatch("[0-9a-f]{48}", found[0][name]) for name in ("password", "access_key", "secret_key"))
    assert found[0]["url"] == f"postgresql+psycopg2://airflow:{found[0]['password']}@postgres:5432/airflow\n"
    credentials = configparser.ConfigParser()
    credentials.read_string(found[0]["credentials"])
    assert credentials["default"]["aws_secret_access_key"] == found[0]["secret_key"]


def test_every_part_is_bounded_and_gains_no_rights():
    for name, service in SERVICES.items():
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert service["mem_limit"], name
        assert service["pids_limit"], name
        assert name == "postgres" or service["cap_drop"] == ["ALL"], name
    for name in {*AIRFLOW, *SPARK, "s3", "keys"}:
        assert SERVICES[name]["read_only"], name


def test_the_image_is_built_of_what_the_wheel_holds_and_runs_as_nobody_special():
    users = re.findall(r"^USER (\S+)", DOCKERFILE, re.MULTILINE)
    assert users == ["50000"]
    assert "useradd --create-home --uid 50000 airflow" in DOCKERFILE
    assert DOCKERFILE.index("USER 50000") > DOCKERFILE.rindex("RUN ")
    sources = {
        word.strip("/")
        for line in re.findall(r"^COPY (?!--from)(.*) /build\S*$", DOCKERFILE, re.MULTILINE)
        for word in line.split()
    }
    allowed = set(re.findall(r"^!(\S+)", (ROOT / ".dockerignore").read_text(), re.MULTILINE))
    assert sources == allowed
    assert all((ROOT / name).exists() for name in sources)


def test_brokers_differ_where_they_must_and_are_in_three_racks():
    brokers = [SERVICES[name]["environment"] for name in ("kafka1", "kafka2", "kafka3")]
    for field in ("KAFKA_BROKER_ID", "KAFKA_BROKER_RACK", "KAFKA_ADVERTISED_LISTENERS"):
        assert len({broker[field] for broker in brokers}) == 3
    assert len({broker["KAFKA_ZOOKEEPER_CONNECT"] for broker in brokers}) == 1


def test_shell_variables_of_commands_are_escaped_for_compose():
    assert re.findall(r"(?<!\$)\$(?![{$])\w+", TEXT) == []


VALUES = yaml.safe_load((ROOT / "docs" / "helm-values.yaml").read_text())


def test_the_values_for_the_chart_name_our_image_and_folders():
    image = VALUES["images"]["airflow"]
    assert SERVICES["airflow-scheduler"]["image"] == f"kafka-maintenance-airflow:{image['tag']}"
    assert f"AIRFLOW__CORE__DAGS_FOLDER={VALUES['config']['core']['dags_folder']} " in DOCKERFILE
    assert f"apache-airflow=={VALUES['airflowVersion']}" in (ROOT / "requirements.txt").read_text().split()
    assert all(each["name"] for each in yaml.safe_load(VALUES["extraEnv"]))


def test_the_values_for_the_chart_want_nothing_that_the_image_lacks():
    """Of the chart's defaults FAB's auth manager, statsd and the script that removes old logs are not in the image; its probes need /entrypoint."""
    from airflow.configuration import conf
    from airflow.sdk.module_loading import import_string

    core = VALUES["config"]["core"]
    assert not set(core) - set(conf.configuration_description["core"]["options"])
    assert import_string(core["auth_manager"])
    pinned = (ROOT / "requirements.txt").read_text()
    assert VALUES["statsd"]["enabled"] or not re.search(r"^statsd==", pinned, re.MULTILINE)
    parts = (VALUES["scheduler"], VALUES["dagProcessor"], VALUES["triggerer"], VALUES["workers"]["celery"])
    assert "/clean-logs" in DOCKERFILE or not any(part["logGroomerSidecar"]["enabled"] for part in parts)
    assert "> /entrypoint && chmod 755 /entrypoint" in DOCKERFILE
    assert f"{core['simple_auth_manager_passwords_file'].rpartition('/')[0]} " in DOCKERFILE


def test_the_chart_is_given_no_known_password():
    assert not VALUES["createUserJob"]["enabled"]
    assert not VALUES["postgresql"]["enabled"]
    assert VALUES["data"] == {"metadataSecretName": "kafka-maintenance-database"}


def test_a_deployment_may_say_on_which_image_exactly_ours_is_built():
    argument, default = re.search(r"^ARG (\w+)=(\S+)$", DOCKERFILE, re.MULTILINE).groups()
    stages = re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)
    assert default.startswith("python:3.11-")
    assert [each for each in stages if each != "jvm"] == [f"${{{argument}}}"] * 2, "one base, whose digest may be named"


def test_the_entry_point_of_the_probes_starts_what_it_is_given(tmp_path):
    (command,) = re.findall(r"^RUN (printf .* > /entrypoint .*)$", DOCKERFILE, re.MULTILINE)
    script = tmp_path / "entrypoint"
    subprocess.run(["sh", "-euc", command.replace("/entrypoint", str(script))], check=True)
    done = subprocess.run([script, "printf", "%s|", "a b", "c"], capture_output=True, text=True, check=True)
    assert done.stdout == "a b|c|"
