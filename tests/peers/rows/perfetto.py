# SPDX-License-Identifier: GPL-2.0-or-later
"""Perfetto's schema with export -f perfetto

All that reads timelines of Perfetto is made from it; protoc decodes by it.  In
perfetto it is the part that we use, and in perfetto-schema all of it, as
published.
"""

import collections
import os
import re
import shutil

import known
import peers
import perfetto

PUBLISHED = 'protos/perfetto/trace/perfetto_trace.proto'
VERSIONS = {'56.0': ('sid', '56.0-1')}
ROWS = {'perfetto': {}, 'perfetto-schema': {'version': '56.0'}}


def decoded(path, version):
    """The packets of a timeline, as text"""
    if not shutil.which('protoc'):
        raise peers.Missing('there is no protoc')
    if version:
        suite, full = VERSIONS[version]
        folder = peers.unpacked('--source', suite, f'perfetto={full}',
                                f'*/{PUBLISHED}')
        file, message = PUBLISHED, 'perfetto.protos.Trace'
    else:
        folder, file, message = peers.scratch(), 'trace.proto', 'Trace'
        with open(f'{folder}/{file}', 'w', encoding='ascii') as f:
            f.write(perfetto.SCHEMA)
    with open(path, 'rb') as f:
        return peers.said(['protoc', f'--proto_path={folder}',
                           f'--decode={message}', f'{folder}/{file}'], stdin=f)


def run(version=None):
    text = decoded(peers.export('perfetto', '--all', known.USER),
                   version)
    # What the schema does not have is decoded as numbers.
    peers.equal('unknown fields', re.findall(r'(?m)^\s*\d+[:\s].*', text), [])
    names = dict(re.findall(r'iid: (\d+)\s+name: "([^"]*)"', text))
    threads = dict(re.findall(
        r'uuid: (\d+)\s+thread {[^}]*thread_name: "([^"]*)"', text))
    calls, depth = collections.Counter(), 0
    for packet in text.split('packet {'):
        kind = re.search(r'type: TYPE_SLICE_(\w+)', packet)
        if kind and threads.get(re.search(r'track_uuid: (\d+)',
                                          packet)[1]) == 'known':
            depth += 1 if kind[1] == 'BEGIN' else -1
            if kind[1] == 'BEGIN':
                iid = re.search(r'name_iid: (\d+)', packet)[1]
                calls[names[iid]] += 1
    peers.equal('slices', {name: calls[name] for name in known.CALLS},
                known.CALLS)
    peers.equal('slices without an end', depth, 0)
