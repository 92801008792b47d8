# SPDX-License-Identifier: GPL-2.0-or-later
"""The Firefox Profiler with export -f perf and -f folded

Its command has the same importers as the page.
"""

import collections
import json
import os
import shutil
import subprocess
import time

import known
import peers

VERSION = '0.10.0'
ROWS = {'firefox-profiler-perf': {'version': VERSION, 'form': 'perf'},
        'firefox-profiler-folded': {'version': VERSION, 'form': 'folded'}}


def functions(version, path):
    """{function: samples}, those of it alone"""
    if not shutil.which('node'):
        raise peers.Missing('there is no node')
    program = os.path.join(peers.npm('@firefox-devtools/profiler-cli', version),
                           'dist', 'profiler-cli.js')
    sessions = os.path.join(peers.scratch(), 'sessions')
    shutil.rmtree(sessions, ignore_errors=True)
    env = {**os.environ, 'PROFILER_CLI_SESSION_DIR': sessions,
           'PROFILER_CLI_NO_SYMBOLICATE': '1'}

    def ask(*args):
        return subprocess.run(['node', program, *args], check=False, text=True,
                              capture_output=True, env=env, timeout=60)

    # It starts a process that is asked then, and waits for half a second only.
    ask('load', path)
    try:
        deadline = time.monotonic() + 60
        while True:
            result = ask('thread', 'functions', '--json')
            if not result.returncode or time.monotonic() > deadline:
                break
            time.sleep(0.5)
        if result.returncode:
            raise peers.Wrong(result.stderr)
        counts = collections.Counter()
        for function in json.loads(result.stdout)['functions']:
            counts[function['name']] += function['selfSamples']
        return counts
    finally:
        ask('stop')


def run(version, form):
    got = functions(version, peers.export(form, known.USER))
    peers.equal('functions', {name: n for name, n in got.items() if n},
                known.reported())
    peers.equal(known.LEAF, got[known.LEAF], known.LEAF_BRANCHES)
