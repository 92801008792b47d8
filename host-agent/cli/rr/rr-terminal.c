/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The terminal as a guest's serial port: see rr-terminal.h
 */

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/rr/rr-terminal.h"
#include "cli/terminal-filter.h"
#include "util/whole-io.h"

/*
 * QEMU is not in our process group, so that Ctrl-C ends us and not QEMU; then
 * it must not read the terminal either.
 */
static void *pump(void *opaque)
{
    int fd = GPOINTER_TO_INT(opaque);
    char bytes[256];
    ssize_t n;

    while ((n = read(STDIN_FILENO, bytes, sizeof(bytes))) > 0) {
        if (whole_write(fd, bytes, n)) {
            break;
        }
    }
    close(fd);
    return NULL;
}

/* What the guest writes, to a terminal */
static void *show(void *opaque)
{
    int fd = GPOINTER_TO_INT(opaque);
    struct terminal_filter filter = { 0 };
    g_autoptr(GString) out = g_string_new(NULL);
    char bytes[4096];
    ssize_t n;

    while ((n = read(fd, bytes, sizeof(bytes))) > 0) {
        terminal_filter(&filter, bytes, n, out);
        whole_write(STDOUT_FILENO, out->str, out->len);
        g_string_truncate(out, 0);
    }
    close(fd);
    return NULL;
}

bool rr_terminal_open(struct rr_terminal *t)
{
    int fds[2];

    if (pipe2(fds, O_CLOEXEC)) {
        return false;
    }
    t->input = fds[0];
    t->output = fds[1];
    t->screen = STDOUT_FILENO;
    if (isatty(STDOUT_FILENO)) {
        if (pipe2(fds, O_CLOEXEC)) {
            rr_terminal_close(t);
            return false;
        }
        t->screen = fds[1];
        t->shows = g_thread_new("screen", show, GINT_TO_POINTER(fds[0]));
    }
    return true;
}

void rr_terminal_start(struct rr_terminal *t)
{
    struct termios now;

    if (isatty(STDIN_FILENO) && !tcgetattr(STDIN_FILENO, &t->before)) {
        now = t->before;
        now.c_lflag &= ~(ICANON | ECHO);
        now.c_cc[VMIN] = 1;
        now.c_cc[VTIME] = 0;
        t->changed = !tcsetattr(STDIN_FILENO, TCSANOW, &now);
    }
    g_thread_unref(g_thread_new("stdin", pump, GINT_TO_POINTER(t->output)));
    t->output = -1;
}

void rr_terminal_close(struct rr_terminal *t)
{
    if (t->shows) {
        close(t->screen);
        g_thread_join(g_steal_pointer(&t->shows));
        whole_write(STDOUT_FILENO, terminal_filter_end,
                    strlen(terminal_filter_end));
    }
    if (t->changed) {
        /* What the terminal has answered is not for whoever reads it next. */
        tcsetattr(STDIN_FILENO, TCSAFLUSH, &t->before);
    }
    if (t->input >= 0) {
        close(t->input);
    }
    if (t->output >= 0) {
        close(t->output);
    }
}
