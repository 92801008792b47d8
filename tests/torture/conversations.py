# SPDX-License-Identifier: GPL-2.0-or-later
"""Commands, agents and services in any order; the guest continues.

A round is a conversation with a QEMU: all commands of branch-trace with
arguments that are right, wrong or at a limit, agents that behave or do not,
services that do not, and what else happens to a guest.  A model says after each
command in which states the capture can be, and what it must say of itself.  At
the end the guest is traced as usual, and the trace has all that QEMU counts.
"""

import array
import contextlib
import os
import socket
import struct
import threading
import time

import backtrail
import booted
import campaign
import control
import guest
import qemu
import transport

WORDS = 'bt.workload=sorter,beat', 'bt.end=stay', 'bt.online=1', \
    'no_timer_check'
STEPS = 40                      # of a conversation, about
ANSWER = 60                     # seconds for a command, on a busy machine
BEAT = 240                      # for the guest, which may have to boot again
READY = transport.message(transport.READY)
TASKS = 9
GROWN_FDS = 8
GROWN_MIB = 400


class Agent(transport.Agent):
    """An agent with a habit, in a thread of its own"""

    HABITS = ('good', 'good', 'slow', 'silent', 'dies', 'garbage', 'messages',
              'tail', 'scribble', 'fds', 'flood')

    def __init__(self, qmp, r, habit):
        super().__init__(qmp)
        self.habit = habit
        # The thread has numbers of its own: those of the round stay the same.
        self.random = type(r)(r.getrandbits(64))
        self.over = False
        self.thread = None

    def hello(self):
        try:
            super().hello()
        except struct.error:
            raise ConnectionResetError('QEMU has hung up') from None

    def begin(self):
        self.sock.settimeout(1)
        self.thread = threading.Thread(target=self.go_on, daemon=True)
        self.thread.start()

    def close(self):
        self.over = True
        if self.thread:
            # QEMU continues without it, whatever it does.
            self.thread.join(10)
        super().close()

    def go_on(self):
        # QEMU may hang up at any moment; another agent may have spoilt what is
        # in the memory.  Then this one hangs up: a guest would wait for it.
        try:
            while not self.over:
                if self.habit != 'silent':
                    self.drain_once()
                getattr(self, 'be_' + self.habit)()
        except (OSError, ValueError, OverflowError, struct.error):
            with contextlib.suppress(OSError):
                self.sock.shutdown(socket.SHUT_RDWR)
        except TypeError:
            # On a busy machine, close() may not have waited for this thread.
            if self.map is not None:
                raise

    def be_good(self):
        time.sleep(0.001)

    def be_slow(self):
        time.sleep(self.random.random() * 0.2)

    be_silent = be_slow

    def be_dies(self):
        if self.random.random() < 0.05:
            self.sock.shutdown(socket.SHUT_RDWR)
            self.over = True
        time.sleep(0.01)

    def be_garbage(self):
        self.sock.sendall(self.random.randbytes(self.random.randrange(1,
                                                                      200)))
        time.sleep(0.05)

    def be_messages(self):
        r = self.random
        kind = r.choice((transport.FLUSH, transport.FLUSH,
                         control.RESEND_CODE, TASKS, transport.STOP,
                         transport.READY, transport.END, r.randrange(12)))
        value = r.choice((0, 1, 48, r.getrandbits(64)))
        data = transport.message(kind, reason=r.getrandbits(16), value=value)
        if kind == TASKS and r.random() < 0.8:
            data = transport.message(kind, value=48) + r.randbytes(48)
        self.sock.sendall(data)
        time.sleep(0.05)

    def be_tail(self):
        r = self.random
        vcpu = r.randrange(self.header['vcpus'])
        self.set_tail(vcpu, r.choice((0, self.tail(vcpu) + 1, r.getrandbits(
            64), self.tail(vcpu) - 1)) & (1 << 64) - 1)
        time.sleep(0.02)

    def be_scribble(self):
        r = self.random
        # Mostly where something is read: the header and what is of vCPUs
        limit = len(self.map) if r.random() < 0.3 else \
            min(len(self.map), 1 << 16)
        for _ in range(100):
            at = r.randrange(limit - 8)
            self.map[at:at + 8] = r.randbytes(8)
        time.sleep(0.01)

    def be_fds(self):
        with open(os.devnull, 'rb') as null:
            self.sock.sendmsg([transport.message(transport.FLUSH)], [(
                socket.SOL_SOCKET, socket.SCM_RIGHTS,
                array.array('i', [null.fileno()] *
                            self.random.randrange(1, 200)))])
        time.sleep(0.05)

    def be_flood(self):
        self.sock.sendall(transport.message(transport.FLUSH) * 100)


class Capture:
    """What the model knows of a capture"""

    def __init__(self, arguments, agent):
        self.name = arguments['capture']
        self.arguments = arguments
        self.agent = agent
        self.last = {}          # (records, lost) of vCPUs, which only grow
        self.lost = False       # seen, and nobody has attached since

    def states(self):
        """An agent that was only slow is back when it drains again."""
        habit = self.agent.habit
        states = {'active', 'agent-lost'}
        if self.lost and not self.arguments.get('agent-timeout', 5000):
            states.discard('active')
        if habit == 'messages':
            states.add('inactive')  # STOP
        if habit == 'good' and not self.lost and \
                self.arguments.get('agent-timeout') == 0:
            states.discard('agent-lost')
        return states

    def can_wait(self):
        """Can the guest wait for longer than the test does?"""
        return self.arguments.get('overflow', 'pause') == 'pause' and \
            not 0 < self.arguments.get('agent-timeout', 5000) < 60000 and \
            self.agent.habit != 'good'


class Part(campaign.Part):
    name = 'conversations'

    def begin(self):
        try:
            backtrail.binary()
            qemu.patched()
            guest.folder()
        except (qemu.QemuError, OSError) as e:
            raise campaign.Skip(str(e)) from None

    def files(self):
        return self.kept

    def round(self):
        self.kept = []
        self.capture = None
        self.running = True
        self.agents = []
        smp = self.random.choice(('2,maxcpus=4', '4'))
        self.vm = qemu.Qemu(['-accel', 'tcg', '-smp', smp, '-device',
                             'branch-trace', *guest.args(*WORDS,
                                                         memory='192')],
                            qmp_sockets=2)
        try:
            booted.start(self.vm, '^BT: beat')
            self.vm.qmp.timeout = ANSWER
            self.vm.qmp.command('set-action', {'reboot': 'reset'})
            before = self.size()
            for i in range(self.random.randrange(STEPS // 2, 2 * STEPS)):
                if self.time_left() < 0 and i >= 10:
                    break
                self.step()
                if i % 8 == 7:
                    self.check_alive()
            self.finish(before)
        except Exception:
            self.keep()
            raise
        finally:
            for agent in self.agents:
                agent.close()
            self.vm.close()

    def keep(self):
        """Copy what is gone with the guest."""
        for name in ('output', 'serial.log', 'after.btrail', 'record.log'):
            path = os.path.join(self.folder, name)
            with contextlib.suppress(OSError), \
                    open(self.vm.path(name), 'rb') as f, \
                    open(path, 'wb') as copy:
                copy.write(f.read())
                self.kept.append(path)

    def size(self):
        process = self.vm.process
        return qemu.descriptors(process), qemu.resident(process) >> 20

    # Commands

    def command(self, name, must=None, **arguments):
        """Give a command.  must says whether it succeeds, None if it may;
        returns what it returns, or None if it fails."""
        arguments = {k.replace('_', '-'): v for k, v in arguments.items()}
        self.say(f'{name} {str(arguments)[:300]}')
        self.counts['commands'] += 1
        try:
            result = self.vm.qmp.command(name, arguments)
        except qemu.QmpError as e:
            self.counts['refused'] += 1
            self.say(f'  refused: {e.desc[:200]}')
            if must:
                raise campaign.Failure(f'{name} {arguments}: {e.desc}') \
                    from None
            return None
        self.vm.qmp.events.clear()
        if must is False:
            raise campaign.Failure(f'{name} {str(arguments)[:500]} is not '
                                   f'refused: {result}')
        return result

    def step(self):
        steps = {
            self.start: 5, self.start_wrong: 3, self.attach: 3,
            self.change: 4, self.change_wrong: 2, self.stop: 3,
            self.stop_wrong: 1, self.service: 3, self.nobody: 1,
            self.stop_guest: 2, self.cont: 3, self.nmi: 1, self.wait: 3,
            self.migrate: 0.3, self.reset: 0.15, self.plug: 0.5,
        }
        step, = self.random.choices([*steps], [*steps.values()])
        step()
        self.check()

    def arguments(self, change=False):
        """Those of a capture, all of them right"""
        r = self.random
        arguments = {}
        if r.random() < 0.3:
            arguments['vcpus'] = r.sample((0, 1), r.randrange(1, 3))
        if r.random() < 0.5:
            arguments['privilege'] = r.choice(('user', 'kernel', 'all'))
        if r.random() < 0.2:
            arguments['cr3'] = [r.getrandbits(64) for _ in
                                range(r.choice((1, 2, 63, 64)))]
        if r.random() < 0.7:
            arguments['overflow'] = r.choice(
                ('pause', 'drop') if change else
                ('pause', 'drop', 'overwrite'))
        if not change:
            arguments['capture'] = r.choice(('c', 'x' * 63, 'a b', '-',
                                             'é', '"\'\\'))
            if r.random() < 0.5:
                arguments['buffer-size'] = r.choice(
                    (128 << 10, (128 << 10) + 1, 1 << 20, 3000000, 16 << 20))
            if r.random() < 0.7:
                arguments['agent-timeout'] = r.choice(
                    (0, 1, 20, 500, 5000, (1 << 32) - 1))
        return arguments

    def agent(self):
        agent = Agent(self.vm.qmp, self.random,
                      self.random.choice(Agent.HABITS))
        self.agents.append(agent)
        self.counts['agents'] += 1
        self.say(f'agent: {agent.habit}')
        return agent

    def connect(self, command, agent, answer=READY, **arguments):
        """Give a command that makes QEMU connect to an agent; the error"""
        self.say(f'{command} {str(arguments)[:300]}')
        self.counts['commands'] += 1
        try:
            agent.start(command, answer, **arguments)
        except (qemu.QmpError, qemu.QemuError, OSError) as e:
            if isinstance(e, TimeoutError):
                raise
            self.say(f'  refused: {str(e)[:200]}')
            self.counts['refused'] += 1
            return e
        agent.begin()
        return None

    def start(self):
        arguments = self.arguments()
        agent = self.agent()
        error = self.connect('branch-trace-start', agent, **arguments)
        if self.capture:
            # The one there is can have ended, or been ended by its agent.
            if not error and 'inactive' not in self.capture.states():
                raise campaign.Failure('two captures at once')
            if error:
                agent.close()
                return
        elif error:
            raise campaign.Failure(f'{arguments}: {error}')
        self.capture = Capture(arguments, agent)
        self.counts['captures'] += 1

    def start_wrong(self):
        r = self.random
        arguments = self.arguments()
        answer = READY
        kind = r.randrange(10)
        if kind < 4:
            answer = r.choice((
                b'', r.randbytes(32), transport.message(transport.HELLO),
                transport.message(transport.READY, version=1),
                transport.message(transport.READY, magic=0), READY[:10],
                b'\0' * 100))
        else:
            arguments.update(r.choice((
                {'capture': 'x' * 64}, {'capture': 7}, {'vcpus': [1023]},
                {'vcpus': [65536]}, {'vcpus': [-1]}, {'vcpus': 0},
                {'privilege': 'none'}, {'cr3': [0] * 65}, {'cr3': ['0']},
                {'overflow': 'wait'}, {'buffer-size': 1},
                {'buffer-size': (4 << 30) + 1}, {'buffer-size': (1 << 63)},
                {'buffer-size': -1}, {'agent-timeout': -1},
                {'agent-timeout': 1 << 32}, {'unknown': 1})))
        agent = self.agent()
        if not self.connect('branch-trace-start', agent, answer,
                            **arguments):
            raise campaign.Failure(f'{arguments}, {answer!r}: not refused')
        agent.close()

    def attach(self):
        agent = self.agent()
        error = self.connect('branch-trace-attach', agent)
        if error:
            agent.close()
            if self.capture and 'inactive' not in self.capture.states():
                raise campaign.Failure(f'attach: {error}')
            return
        if not self.capture:
            raise campaign.Failure('attached to no capture')
        # Which agent has stopped it is not known any more.
        self.capture.agent = agent
        self.capture.lost = False

    def change(self):
        arguments = self.arguments(change=True)
        overwrites = self.capture and \
            self.capture.arguments.get('overflow') == 'overwrite'
        if overwrites:
            arguments['overflow'] = 'overwrite'
        must = bool(self.capture)
        if self.capture and 'inactive' in self.capture.states():
            must = None
        info = self.command('branch-trace-change', must,
                            capture=self.capture.name if self.capture else
                            'c', **arguments)
        if info:
            for name in ('vcpus', 'privilege', 'cr3', 'overflow'):
                self.capture.arguments.pop(name, None)
            self.capture.arguments.update(arguments)

    def change_wrong(self):
        r = self.random
        arguments = {'capture': self.capture.name if self.capture else 'c',
                     **self.arguments(change=True)}
        arguments.update(r.choice((
            {'capture': 'no'}, {'vcpus': [1023]}, {'cr3': [0] * 65},
            {'privilege': 3}, {'overflow': ''}, {'buffer-size': 1 << 20},
            {'vcpus': [-1]}, {'cr3': [-1.5]})))
        self.command('branch-trace-change', False, **arguments)

    def stop(self):
        if not self.capture:
            self.command('branch-trace-stop', False, capture='c')
            return
        must = None if 'inactive' in self.capture.states() else True
        info = self.command('branch-trace-stop', must,
                            capture=self.capture.name)
        if info:
            self.check_info(info, {'inactive'})
        self.capture = None

    def stop_wrong(self):
        self.command('branch-trace-stop', False,
                     capture=self.random.choice(('no', '', 'x' * 64)))

    def nobody(self):
        """A service that is not there"""
        self.command('branch-trace-agent', False, command={'do': 'status'},
                     agent={'type': 'unix',
                            'path': self.vm.path('nobody')},
                     timeout=self.random.choice((1, 100, 1000)))

    # What happens to a guest

    def stop_guest(self):
        self.command('stop')
        self.running = False

    def cont(self):
        self.command('cont', True)
        self.running = True

    def nmi(self):
        if self.running:
            self.command('inject-nmi')

    def wait(self):
        time.sleep(self.random.random() ** 2)

    def reset(self):
        self.command('system_reset', True)
        self.counts['resets'] += 1

    def migrate(self):
        """To a file; the guest continues here all the same."""
        self.command('migrate', True, uri=f'file:{self.vm.path("state")}')
        try:
            status = self.vm.qmp.wait_migrated(BEAT)
        except TimeoutError as e:
            raise campaign.Failure(str(e)) from None
        self.say(f'  migration {status}')
        if status == 'completed':
            # It ends the capture, which it may do a little later.
            self.wait_state('inactive')
            self.capture = None
            self.command('cont', True)
            self.running = True
            self.counts['migrations'] += 1

    def plug(self):
        """Another vCPU; to unplug one is not safe with TCG."""
        slots = [s for s in self.vm.qmp.command('query-hotpluggable-cpus')
                 if 'qom-path' not in s]
        if slots:
            slot = self.random.choice(slots)
            self.command('device_add', driver=slot['type'], **slot['props'])
            self.counts['plugged'] += 1

    # Services

    def service(self):
        """A control connection, and what an agent does with it"""
        r = type(self.random)(self.random.getrandbits(64))
        path = self.vm.path('control')

        def execute(service):
            name = r.choice((
                'query-branch-trace', 'branch-trace-start',
                'branch-trace-start', 'branch-trace-change',
                'branch-trace-attach', 'branch-trace-stop', 'quit',
                'human-monitor-command', ''))
            arguments = {'capture': r.choice(('c', 's', 'x' * 64)),
                         'overflow': 'drop', 'agent-timeout': 500}
            if r.random() < 0.3:
                arguments.update(r.choice(({'agent': 1}, {'vcpus': [999]},
                                           {'buffer-size': 1}, {'x': []})))
            if name in ('query-branch-trace', 'branch-trace-attach'):
                arguments = {}
            if name == 'branch-trace-stop':
                arguments = {'capture': arguments['capture']}
            try:
                return service.execute(name, **arguments)
            except control.ExecuteError as e:
                return e.desc
            except OSError as e:
                # It has hung up, or is about to.
                return str(e)

        def hostile():
            return r.choice((
                r.randbytes(100), control.message(b'{' * 10000),
                transport.message(control.JSON, value=1 << 40),
                control.message({'type': 'reply', 'id': 1 << 62,
                                 'return': 1}),
                control.message({'type': 'execute', 'id': -1}),
                control.message({'type': 'execute', 'id': 1, 'execute':
                                 'quit'}) * 1000))

        def answer(service, command):
            kind = r.randrange(9)
            if kind < 4:
                return [execute(service) for _ in range(r.randrange(1, 6))]
            if kind == 4:
                raise control.Refused('x' * r.choice((0, 1, 10000)))
            if kind == 5:
                return control.NOTHING
            if kind == 6:
                with contextlib.suppress(OSError):
                    service.send_bytes(hostile())
                return {}
            if kind == 7:
                with contextlib.suppress(OSError, AttributeError):
                    service.control.shutdown(socket.SHUT_RDWR)
                return {}
            return command

        with control.Service(path, answer, ready=r.random() < 0.8,
                             drain=r.random() < 0.7) as service:
            for _ in range(r.randrange(1, 6)):
                self.command('branch-trace-agent',
                             command={'do': 'x', 'n': r.getrandbits(60)},
                             agent={'type': 'unix', 'path': path},
                             timeout=r.choice((1, 50, 1000, 10000)))
                self.counts['services asked'] += 1
        # It is gone; what it has made of the capture, or of none, is not.
        info = self.vm.qmp.command('query-branch-trace')
        if info['state'] == 'inactive':
            self.capture = None
        else:
            # Of what a service has started or changed, the model knows
            # nothing: it ends here.
            self.command('branch-trace-stop', True, capture=info['capture'])
            self.capture = None

    # What must hold

    def query(self):
        return self.vm.qmp.command('query-branch-trace')

    def wait_state(self, state):
        deadline = time.monotonic() + ANSWER
        while self.query()['state'] != state:
            if time.monotonic() > deadline:
                raise campaign.Failure(f'not {state}: {self.query()}')
            time.sleep(0.05)

    def check(self):
        """The state is one that the model permits."""
        if self.vm.process.poll() is not None:
            raise campaign.Failure(f'QEMU ended: {self.vm.process.returncode}'
                                   f': {self.vm.output()[-2000:]}')
        info = self.query()
        states = self.capture.states() if self.capture else {'inactive'}
        self.check_info(info, states)
        if self.capture and info['state'] == 'inactive':
            self.say('  its agent has stopped the capture')
            self.capture = None
        elif self.capture:
            self.capture.lost |= info['state'] == 'agent-lost'
        status = self.vm.qmp.command('query-status')
        if status['running'] != self.running:
            raise campaign.Failure(f'the guest is {status}')
        self.counts['states checked'] += 1

    def check_info(self, info, states):
        if info['state'] not in states:
            raise campaign.Failure(f'{info["state"]}, and not one of '
                                   f'{sorted(states)}: {info}')
        if not self.capture:
            return
        want = {'capture': self.capture.name, 'privilege': 'all',
                'overflow': 'pause', 'agent-timeout': 5000,
                **{k: v for k, v in self.capture.arguments.items()
                   if k in ('privilege', 'overflow', 'agent-timeout')}}
        for name, value in want.items():
            if info[name] != value:
                raise campaign.Failure(f'{name} is {info[name]!r}, not '
                                       f'{value!r}')
        if len(info.get('cr3', ())) > 64 or info['buffer-size'] < \
                self.capture.arguments.get('buffer-size', 2 << 20):
            raise campaign.Failure(f'not as requested: {info}')
        for v in info['vcpus']:
            now = v['records'], v['lost'], v['drained']
            before = self.capture.last.get(v['cpu-index'], (0, 0, 0))
            # A hostile agent's tail is refused: it does not count as drained.
            if now[0] < before[0] or now[1] < before[1] or \
                    now[1] > now[0] or now[2] > now[0]:
                raise campaign.Failure(f'{v}, and before {before}')
            self.capture.last[v['cpu-index']] = now

    def check_alive(self):
        """The guest continues, unless a command given to it prevents that."""
        if not self.running:
            self.cont()
        if self.capture and self.capture.can_wait():
            self.stop()
        before = self.beats()
        deadline = time.monotonic() + BEAT
        while self.beats() == before:
            if self.vm.process.poll() is not None or \
                    time.monotonic() > deadline:
                raise campaign.Failure(f'no beat after {before}: '
                                       f'{self.query()}: {self.vm.tail()}')
            time.sleep(0.05)
        self.counts['beats waited for'] += 1

    def beats(self):
        return self.vm.serial().count('BT: beat')

    def finish(self, before):
        """It can be traced as if nothing had been."""
        if not self.running:
            self.cont()
        if self.query()['state'] != 'inactive':
            self.stop()
        path = self.vm.path('after.btrail')
        with backtrail.Record(self.vm.qmp_paths[1], path,
                              self.vm.path('record.log'), '--session',
                              'after') as agent:
            self.check_alive()
            deadline = time.monotonic() + ANSWER
            while self.query()['state'] != 'active':
                if time.monotonic() > deadline:
                    raise campaign.Failure(f'record: {agent.output()}')
                time.sleep(0.05)
            time.sleep(0.3)
            info = self.vm.qmp.command('branch-trace-stop',
                                       {'capture': 'after'})
            with self.vm.standing():
                if agent.wait(ANSWER):
                    raise campaign.Failure(f'record: {agent.output()}')
                self.check_trace(path, info)
        for agent in self.agents:
            agent.close()
        after = self.size()
        self.say(f'descriptors and MiB: {before}, {after}')
        if after[0] > before[0] + GROWN_FDS or \
                after[1] > before[1] + GROWN_MIB:
            raise campaign.Failure(f'QEMU has grown from {before} to {after}')
        status = self.vm.quit()
        if status:
            raise campaign.Failure(f'QEMU ends with {status}: '
                                   f'{self.vm.output()[-2000:]}')

    def check_trace(self, path, info):
        result = backtrail.run('verify', path, check=False)
        if result.returncode:
            raise campaign.Failure(f'verify: {result.stderr[-2000:]}')
        vcpus = {v['cpu-index']: v['records'] for v in info['vcpus']}
        for s in backtrail.run_json('info', path)['streams']:
            if s['records'] + s['lost'] != s['end_index'] or \
                    s['end_index'] != vcpus[s['vcpu']]:
                raise campaign.Failure(f'{s} is not {vcpus}')
            self.counts['records compared'] += s['records']
