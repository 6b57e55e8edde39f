"""The embedded server in a thread, with the files of a small custom resource."""

import datetime
import os
import random
import subprocess

import pytest

from opkit.simulation.store import Store
from opkit.testing.embedded import EmbeddedCluster

DEFINITION = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: shops.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: shops, singular: shop, kind: Shop, listKind: ShopList, shortNames: [sh], categories: [all]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    additionalPrinterColumns:
    - {name: Size, type: integer, jsonPath: .spec.size}
    - {name: Wide, type: string, jsonPath: .spec.color, priority: 1}
    schema:
      openAPIV3Schema:
        type: object
        description: A place to buy things.
        properties:
          spec:
            type: object
            description: What is wanted.
            properties:
              size: {type: integer, description: How large it is.}
              color: {type: string}
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
"""
SHOP = """
apiVersion: example.com/v1
kind: Shop
metadata: {name: corner, labels: {app: shop}}
spec: {size: 1, color: red}
"""


def utc_now():
    return datetime.datetime.now(datetime.UTC)


def new_store(**options):
    return Store(utc_now, random.Random(0), **options)


@pytest.fixture
def server():
    """As `opkit apiserver` runs it: with garbage collection, in a thread of its own."""
    with EmbeddedCluster(collect_garbage=True) as running:
        yield running


@pytest.fixture
def files(tmp_path):
    """The definition and an object, as files."""
    (tmp_path / "crd.yaml").write_text(DEFINITION)
    (tmp_path / "shop.yaml").write_text(SHOP)
    return tmp_path


@pytest.fixture
def kubectl(server, tmp_path):
    """Run kubectl against the server; gives what it prints, and fails the test if it fails."""

    def run(*args, check=True, text=None):
        environment = {**os.environ, "KUBECONFIG": str(server.kubeconfig), "HOME": str(tmp_path)}
        done = subprocess.run(
            ["kubectl", *args], capture_output=True, text=True, env=environment, timeout=60, input=text
        )
        assert not check or done.returncode == 0, f"kubectl {args}: {done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    return run


@pytest.fixture
def shop(kubectl, files):
    """The definition and one object are there."""
    kubectl("apply", "-f", str(files / "crd.yaml"))
    kubectl("apply", "-f", str(files / "shop.yaml"))
    return files / "shop.yaml"
