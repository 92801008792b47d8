# SPDX-License-Identifier: GPL-2.0-or-later
"""eight CPUs, of which some are isolated and some go off and on"""

import account

KERNEL = '6.12-cloud'
CPU = '/sys/devices/system/cpu/cpu{}/online'


def run(lab):
    with lab.guest(smp=8, words=['isolcpus=6,7', 'nohz_full=6,7',
                                 'rcu_nocbs=6,7']) as g:
        with g.traced('isolated.btrail') as trace:
            number = g.begin('taskset 40 spin 400 & taskset 80 counted')
            g.end(number)
            for value in 0, 1:
                for cpu in 3, 4:
                    g.run(f'echo {value} >{CPU.format(cpu)}')
            g.run('taskset 8 spin 100; taskset 10 spin 100; wait')
        told = g.tell()
    lab.sound(trace)
    lab.judge(trace, [told], task=0.1, programs=lab.programs())
    ran = {r['cpu'] for r in account.rows(trace, 'comm,cpu')
           if r['comm'] == 'spin'}
    lab.check('threads', {'3', '4', '6'} <= ran, f'spin ran on {ran}')
