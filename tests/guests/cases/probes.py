# SPDX-License-Identifier: GPL-2.0-or-later
"""functions of the kernel are probed, or followed by its tracers"""

KERNEL = '6.12-cloud'
TRACING = '/sys/kernel/tracing'
KPROBES = ('echo p:in vfs_read+9 >kprobe_events; '
           'echo r:out vfs_write >>kprobe_events; '
           'echo p:first vfs_open >>kprobe_events; '
           'echo 1 >events/kprobes/enable; sleep 2')
FUNCTION = 'echo vfs_read >set_ftrace_filter; echo {} >current_tracer; sleep 1'
CASES = {
    'kprobe': {'setup': KPROBES},
    'kprobe-7.3': {'kernel': '7.3-cloud', 'setup': KPROBES},
    'ftrace': {'setup': FUNCTION.format('function')},
    'function-graph': {'setup': FUNCTION.format('function_graph')},
    'function-graph-7.3': {'kernel': '7.3-cloud',
                           'setup': FUNCTION.format('function_graph')},
}


def run(lab, setup):
    # A module of which other code could be taken to be the end
    with lab.guest(modules=('tun',)) as g:
        g.run('modprobe tun')
        with g.traced('probes.btrail') as trace:
            g.run(f'cd {TRACING}; {setup}; cd /')
            g.run('for i in 1 2 3; do dd if=/bin/busybox of=/tmp/copy bs=4096; '
                  'done 2>/dev/null')
        told = g.tell()
    lab.facts['lines of the tracers'] = sum(
        '[__builtin__' in s[0].dso for s in told.symbols.values())
    lab.sound(trace)
    lab.judge(trace, [told], programs=lab.programs())
