# SPDX-License-Identifier: GPL-2.0-or-later
"""the kernel runs a BPF program"""

import re

import backtrail

KERNEL = '6.12-cloud'
CASES = {'bpf': {}, 'bpf-7.3': {'kernel': '7.3-cloud'},
         'bpf-no-retpolines': {'words': ['mitigations=off']}}


def run(lab, words=()):
    with lab.guest(words=words) as g:
        with g.traced('bpf.btrail') as trace:
            g.run('bpf 30 >/tmp/bpf &')
            said = g.run('while ! grep runs= /tmp/bpf; do sleep 0.3; done')
            runs = int(re.search(r'runs=(\d+)', said)[1])
        # The program is still loaded.
        told = g.tell()
        g.run('touch /tmp/bpf-end')
    lab.sound(trace)
    lab.judge(trace, [told], programs=lab.programs())
    name = next(s[0].name for s in told.symbols.values()
                if 'test_loop' in s[0].name)
    report = backtrail.run_json('report', '--children', '--min-share', '0',
                                '--comm', 'bpf', trace)
    rows = {r['sym']: r for r in report['rows']}
    lab.check('calls', name in rows and rows[name]['calls'] == runs,
              f'{name} ran {runs} times, and its row is {rows.get(name)}')
    lost = report['stacks']['unknown_returns']
    lab.check('calls', lost < runs / 20, f'{lost} returns have no known call, '
              f'where {name} ran {runs} times')
    lab.check('calls', name in rows and rows['bpf_test_run']['records'] >
              rows[name]['records'], f'{name} is not below bpf_test_run')

