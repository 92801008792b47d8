# SPDX-License-Identifier: GPL-2.0-or-later
"""lldb at a trace

It knows breakpoints and a program counter, and nothing of branch traces.
"""

import re
import subprocess

import backtrail
import known
import peers
import qemu

VERSIONS = {'19': ('trixie', '1:19.1.7-3+b1'), '21': ('sid', '1:21.1.8-14')}
ROWS = {f'lldb-{version}': {'version': version} for version in VERSIONS}
CALLS = {'often': 100, 'deep': 41, 'hidden': 30, 'never': 0}


def hits(text):
    """[{function: how often its breakpoint was met}] of each list in a text"""
    found = []
    for part in text.split('Current breakpoints:')[1:]:
        found.append({name: int(count) for name, count in re.findall(
            r"^\d+: name = '(\w+)',.* hit count = (\d+)", part, re.M)})
    return found


def run(version):
    suite, full = VERSIONS[version]
    folder = peers.unpacked(suite, f'lldb-{version}={full}')
    programs = peers.Programs(folder)
    programs.add(f'usr/lib/llvm-{version}/bin/lldb', PYTHONHOME=f'{folder}/usr')
    words = ['target create ' + known.root() + '/known']
    with qemu.spawn([backtrail.binary(), 'gdbserver', '--process', 'known',
                     '--sysroot', known.root(), '--at', 'known:main',
                     known.trace(), '0'], stdout=subprocess.PIPE,
                    text=True) as server:
        server.stdout.readline()
        port = server.stdout.readline().split(':')[-1].strip()
        words += [f'gdb-remote 127.0.0.1:{port}',
                  # No packet says where the program is.
                  'target modules load --file known --slide 0', 'bt',
                  *(f'breakpoint set -G true -n {name}' for name in CALLS),
                  'continue', 'breakpoint list']
        if version != '19':
            words += ['process continue --reverse', 'breakpoint list']
        try:
            # With its option --batch, it ends where the trace does.
            text = programs.run('lldb', '--no-lldbinit', *(
                word for line in [*words, 'settings set auto-confirm true']
                for word in ('-o', line)), stdin=subprocess.DEVNULL)
        finally:
            server.kill()
    if not re.search(r'frame #0: \S+ known`main\(.* at known\.cc:\d+', text):
        raise peers.Wrong(f'lldb is not in main(): {text}')
    want = [{name: n * times for name, n in CALLS.items()}
            for times in ((1,) if version == '19' else (1, 2))]
    peers.equal('hits', hits(text), want)
    if version != '19':
        peers.equal('ends', text.count('stop reason = history boundary'), 2)
