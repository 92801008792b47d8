# SPDX-License-Identifier: GPL-2.0-or-later
"""What gdb does beside its own commands where it walks a trace.

gdb goes backwards in a window: the part of a trace that it has read, which is
short, so that it is read in no time.  Here the window is moved with it.
walk-server.h has the requests.
"""

import gdb

# Records of a window before and behind where gdb stands, which it reads in
# 20 ms; and behind it for commands that go forwards
BEFORE, AFTER, AHEAD = 768, 256, 8192
# How far back a step searches for who has called a function without lines
NEAR = 1 << 17


def quiet(line):
    return gdb.execute(line, to_string=True)


def ask(text):
    """What the server answers; None if there is nothing there"""
    connection = gdb.selected_inferior().connection
    if not isinstance(connection, gdb.RemoteTargetConnection):
        return None
    said = (connection.send_packet('qBacktrail.' + text) or b'E').decode()
    return None if said.startswith('E') else said


def number():
    """Of the instruction in the window; 0 if the window ends there; None if
    there is no window"""
    recording = gdb.current_recording()
    if recording is None or recording.method != 'btrace':
        return None
    position = recording.replay_position
    return position.number if position else 0


def forget():
    """The server has moved."""
    quiet('maintenance flush register-cache')
    quiet('maintenance flush dcache')


def show(found):
    """Stands at an instruction of a new window."""
    if number():
        quiet('record goto end')
    forget()
    quiet(f'record goto {found}')


class Window:
    """last: the number of its last instruction"""

    last = 0

    def around(self, at, after=AFTER):
        """A new window; returns the number that the instruction has in it."""
        said = ask(f'window:{at:x},{BEFORE:x},{after:x}')
        if not said:
            raise gdb.GdbError('The trace is damaged here, or this is not one '
                               'of a walk.')
        found, self.last = (int(word, 16) for word in said.split(','))
        show(found)
        return found

    def open(self):
        """A window that gdb stands in; the number"""
        at = number()
        if at is None:
            quiet('record btrace bts')
            at = 0
        return at or self.around(at)

    def leave(self):
        """Stands there without a window; returns if there was one."""
        at = number()
        if at:
            ask(f'stand:{at:x}')
            quiet('record goto end')
            forget()
        return at is not None


window = Window()


class Way:
    """A way back, which the server goes; gdb follows at its end."""

    SAME, CALLEE, CALLER, NOWHERE = range(4)

    def __init__(self):
        self.pc = 0
        self.way = self.SAME
        self.go(f'from:{window.open():x}')

    def go(self, request):
        said = ask(request)
        if said:
            self.pc, self.way = (int(word, 16) for word in said.split(','))
        else:
            self.way = self.NOWHERE
        return self.way

    def back(self, start=0, end=0, over=True):
        """Within a range of code, one instruction at least"""
        return self.go(f'back:{start:x},{end:x},{over:d}')

    def follow(self):
        found = int(ask('to'), 16)
        if found:
            quiet(f'record goto {found}')
        else:
            quiet('record goto end')
            forget()
            window.around(0)


def line_of(pc):
    """The range of the source line of an instruction, and which line that is;
    None if it has none"""
    found = gdb.find_pc_line(pc)
    return (found.pc, found.last + 1, (found.symtab.filename, found.line)) \
        if found.line else None


def one_back(way, into, start=0, end=0):
    """Into a function only if it has lines; returns if it is in one."""
    if way.back(start, end, not into) == way.CALLEE and not line_of(way.pc):
        way.go('caller:0')
        return False
    return way.way == way.CALLEE


def by_lines(way, into):
    """To where a source line begins, as gdb does: that of this line, or of
    another one that ran before"""
    line = line_of(way.pc)
    leaves = None
    if not line:
        # To who has called it, which may have lines.
        way.go(f'caller:{NEAR:x}')
    elif way.pc == line[0]:
        leaves = line[2]
        if one_back(way, into):
            leaves = None
    while way.way != way.NOWHERE:
        line = line_of(way.pc)
        if not line or (way.pc == line[0] and line[2] != leaves):
            break
        if one_back(way, into, *line[:2]) or way.way == way.CALLER:
            leaves = None


def back(command):
    """Go back; False if there is nothing more."""
    way = Way()
    if command == 'stepi':
        way.back(over=False)
    elif command == 'nexti':
        way.back()
    elif command == 'finish':
        way.go('caller:0')
    else:
        by_lines(way, command == 'step')
    way.follow()
    return way.way != way.NOWHERE


def symbols():
    """Those of the process that runs here"""
    at = number()
    if not at:
        quiet('backtrail-symbols')
        return
    said = ask(f'view:{at:x}')
    if said and int(said, 16) != int(gdb.convenience_variable(
            'backtrail_set')):
        # gdb forgets its window where symbols go.
        window.leave()
        quiet('backtrail-symbols')
        window.around(0)


class Reverse(gdb.Command):
    """Go backwards in the trace, as far as it goes."""

    def __init__(self, command, counts):
        self.command = command
        self.counts = counts
        super().__init__('reverse-' + command, gdb.COMMAND_RUNNING)

    def invoke(self, argument, from_tty):
        times = int(gdb.parse_and_eval(argument)) if argument and \
            self.counts else 1
        done = 0
        while done < times and back(self.command):
            done += 1
        symbols()
        if done < times:
            gdb.write('\nNo more reverse-execution history, or who has called '
                      'this is far back;\nthere are reverse-finish and '
                      'reverse-stepi.\n' if self.counts else
                      'The trace does not show who has called it.\n')
        gdb.write(quiet('frame'))


class ReverseContinue(gdb.Command):
    """Go back to the last breakpoint, wherever in the trace it is."""

    def __init__(self):
        super().__init__('reverse-continue', gdb.COMMAND_RUNNING)

    def invoke(self, argument, from_tty):
        recorded = window.leave()
        if recorded:
            quiet('record stop')
        quiet('set exec-direction reverse')
        try:
            gdb.write(quiet('continue ' + argument))
        finally:
            quiet('set exec-direction forward')
            if recorded:
                quiet('record btrace bts')


for _command in 'step', 'next', 'stepi', 'nexti':
    Reverse(_command, True)
Reverse('finish', False)
ReverseContinue()


class Leave(gdb.Command):
    """Stand where gdb is, without a window: for commands of the server."""

    def __init__(self):
        super().__init__('backtrail-leave', gdb.COMMAND_OBSCURE)

    def invoke(self, argument, from_tty):
        window.leave()


class Ahead(gdb.Command):
    """Have a window that goes on behind where gdb stands."""

    def __init__(self):
        super().__init__('backtrail-ahead', gdb.COMMAND_OBSCURE)

    def invoke(self, argument, from_tty):
        at = number()
        if at is None:
            quiet('record btrace bts')
        if not at or window.last - at < AHEAD:
            window.around(at or 0, AHEAD)


Leave()
Ahead()
