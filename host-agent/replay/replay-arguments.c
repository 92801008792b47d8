/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The arguments of a replay: see replay-arguments.h
 */

#include <string.h>

#include "replay/devices.h"
#include "replay/image.h"
#include "replay/machine.h"
#include "replay/option-list.h"
#include "replay/replay-arguments.h"
#include "replay/vcpu-count.h"

#define FOLDER  "recording/" RECORDING_FILES "/"

typedef bool checker(const char *value);

/* A file of the recording */
static bool is_file(const char *value)
{
    return g_str_has_prefix(value, FOLDER) && !strstr(value, "..") &&
           !strpbrk(value, ",:=");
}

/* No path leads anywhere else; only @file, if not NULL, has any. */
static bool paths_stay(const GPtrArray *list, const char *file)
{
    for (unsigned i = 0; i < list->len; i++) {
        const struct option_pair *p = g_ptr_array_index(list, i);

        if (strchr(p->key, '/') ||
            (p->value && strchr(p->value, '/') &&
             (g_strcmp0(p->key, file) || !is_file(p->value)))) {
            return false;
        }
    }
    return true;
}

static bool has_no_path(const char *value)
{
    g_autoptr(GPtrArray) list = option_list_parse(value, "");

    return paths_stay(list, NULL) && *value != '{';
}

static bool is_text(const char *value)
{
    return true;
}

static bool is_firmware(const char *value)
{
    return !strcmp(value, "recording/" MACHINE_FIRMWARE);
}

static bool is_bios(const char *value)
{
    return is_file(value) || !strpbrk(value, "/:");
}

static bool is_vcpus(const char *value)
{
    return vcpu_count_parse(value);
}

static bool is_tcg(const char *value)
{
    return !strcmp(value, "tcg");
}

static bool is_none(const char *value)
{
    return !strcmp(value, "none");
}

static bool is_machine(const char *value)
{
    g_autoptr(GPtrArray) list = option_list_parse(value, "type");

    return has_no_path(value) && !option_list_get(list, "accel") &&
           !option_list_get(list, "dumpdtb");
}

static bool is_device(const char *value)
{
    g_autoptr(GPtrArray) list = option_list_parse(value, "driver");
    const char *type = option_list_get(list, "driver");

    /* A base has the state of this one if the guest had it. */
    return !strcmp(value, "branch-trace") ||
           (has_no_path(value) && type && !devices_refuse(type) &&
            strcmp(type, "branch-trace"));
}

static bool is_object(const char *value)
{
    static const char *const known[] = {
        "memory-backend-ram", "memory-backend-memfd", "rng-builtin",
        "filter-replay", NULL
    };
    g_autoptr(GPtrArray) list = option_list_parse(value, "qom-type");
    const char *type = option_list_get(list, "qom-type");

    return has_no_path(value) && type && g_strv_contains(known, type);
}

/* Is it switched on?  There may be other words for that. */
static bool is_on(const GPtrArray *list, const char *key)
{
    return !g_strcmp0(option_list_get(list, key), "on");
}

/* QEMU writes to no image. */
static bool is_drive(const char *value)
{
    static const char *const known[] = {
        "file", "format", "if", "id", "media", "index", "bus", "unit",
        "snapshot", "readonly", "read-only", "driver", "image", NULL
    };
    g_autoptr(GPtrArray) list = option_list_parse(value, NULL);
    const char *file = option_list_get(list, "file");
    const char *format = option_list_get(list, "format");
    const char *driver = option_list_get(list, "driver");

    return !option_list_unknown(list, known) && paths_stay(list, "file") &&
           (!file || is_file(file)) &&
           (!file || !g_strcmp0(format, "raw") ||
            !g_strcmp0(format, "qcow2")) &&
           (!driver || (!file && !strcmp(driver, "blkreplay"))) &&
           (!file || is_on(list, "snapshot") || is_on(list, "readonly"));
}

static bool is_cut_off(const GPtrArray *list, const char *const *known)
{
    const char *type = option_list_get(list, "type");

    return !option_list_unknown(list, known) && paths_stay(list, NULL) &&
           (!g_strcmp0(type, "null") ||
            (!g_strcmp0(type, "user") && is_on(list, "restrict")));
}

static bool is_netdev(const char *value)
{
    static const char *const known[] = { "type", "id", "restrict", NULL };
    g_autoptr(GPtrArray) list = option_list_parse(value, "type");

    return is_cut_off(list, known);
}

static bool is_nic(const char *value)
{
    static const char *const known[] = {
        "type", "id", "restrict", "model", "mac", NULL
    };
    g_autoptr(GPtrArray) list = option_list_parse(value, "type");

    return is_none(value) || is_cut_off(list, known);
}

static bool is_chardev(const char *value)
{
    static const char *const known[] = { "backend", "id", "mux", NULL };
    g_autoptr(GPtrArray) list = option_list_parse(value, "backend");

    return !option_list_unknown(list, known) && paths_stay(list, NULL) &&
           !g_strcmp0(option_list_get(list, "backend"), "null");
}

static bool is_port(const char *value)
{
    return is_none(value) || !strcmp(value, "null") ||
           (g_str_has_prefix(value, "chardev:") && !strchr(value, '/'));
}

static const struct {
    const char *name;
    checker *check;             /* NULL: it has no value */
} options[] = {
    { "-machine", is_machine },
    { "-accel", is_tcg },
    { "-cpu", has_no_path },
    { "-smp", is_vcpus },
    { "-m", has_no_path },
    { "-object", is_object },
    { "-device", is_device },
    { "-global", has_no_path },
    { "-rtc", has_no_path },
    { "-boot", has_no_path },
    { "-vga", has_no_path },
    { "-uuid", has_no_path },
    { "-action", has_no_path },
    { "-name", is_text },
    { "-no-reboot", NULL },
    { "-nodefaults", NULL },
    { "-no-user-config", NULL },
    { "-smbios", has_no_path },
    { "-kernel", is_file },
    { "-initrd", is_file },
    { "-dtb", is_file },
    { "-bios", is_bios },
    { "-append", is_text },
    { "-L", is_firmware },
    { "-drive", is_drive },
    { "-netdev", is_netdev },
    { "-nic", is_nic },
    { "-serial", is_port },
    { "-parallel", is_port },
    { "-debugcon", is_port },
    { "-chardev", is_chardev },
    { "-display", is_none },
    { "-monitor", is_none },
};

/* The number of elements that an option has here; 0 if it must not be there */
static unsigned check_option(char *const *at)
{
    for (unsigned i = 0; i < G_N_ELEMENTS(options); i++) {
        if (strcmp(*at, options[i].name)) {
            continue;
        }
        if (!options[i].check) {
            return 1;
        }
        return at[1] && options[i].check(at[1]) ? 2 : 0;
    }
    return 0;
}

/*
 * The number of elements of an option that was checked.  A value can be what
 * looks like an option, and must not be changed like one.
 */
static unsigned width(char *const *at)
{
    for (unsigned i = 0; i < G_N_ELEMENTS(options); i++) {
        if (!strcmp(*at, options[i].name)) {
            return options[i].check && at[1] ? 2 : 1;
        }
    }
    return 1;
}

bool replay_arguments_check(char *const *arguments, GError **error)
{
    while (*arguments) {
        unsigned n = check_option(arguments);

        if (!n) {
            g_set_error(error, AGENT_ERROR, AGENT_ERROR_PROTOCOL,
                        "the recording wants QEMU to run with %s%s%s, which "
                        "could reach what is outside of the recording; it is "
                        "not replayed", arguments[0],
                        arguments[1] ? " " : "",
                        arguments[1] ? arguments[1] : "");
            return false;
        }
        arguments += n;
    }
    return true;
}

bool replay_arguments_trace(char *const *arguments)
{
    for (; *arguments; arguments += width(arguments)) {
        if (!strcmp(arguments[0], "-device") && arguments[1] &&
            !strcmp(arguments[1], "branch-trace")) {
            return true;
        }
    }
    return false;
}

/* An image needs no other file. */
static bool check_image(const struct recording *r, const char *value,
                        GError **error)
{
    g_autoptr(GPtrArray) list = option_list_parse(value, NULL);
    const char *file = option_list_get(list, "file");
    g_autofree char *path = NULL;

    if (!file) {
        return true;
    }
    path = recording_path(r, file + strlen("recording/"));
    return image_format(path, option_list_get(list, "format"), error);
}

static bool check_images(const struct recording *r, GError **error)
{
    for (char **a = r->arguments; *a; a += width(a)) {
        if (!strcmp(*a, "-drive") && !check_image(r, a[1], error)) {
            return false;
        }
    }
    for (unsigned i = 0; i < r->files->len; i++) {
        const struct recorded_file *f = g_ptr_array_index(r->files, i);
        g_autofree char *path = f->overlay ? recording_path(r, f->overlay) :
                                NULL;

        if (path && !image_check_overlay(path, error)) {
            return false;
        }
    }
    return true;
}

/*
 * A drive whose image has an overlay: QEMU gets both from us, and uses no name
 * that the overlay has in it.
 */
static char *add_overlay(const char *value, const struct recorded_file *f)
{
    g_autoptr(GPtrArray) list = option_list_parse(value, NULL);
    g_autofree char *file = option_list_take(list, "file");
    g_autofree char *format = option_list_take(list, "format");
    g_autofree char *name = g_strdup_printf("recording/%s", f->overlay);

    option_list_set(list, "driver", "qcow2");
    option_list_set(list, "file.driver", "file");
    option_list_set(list, "file.filename", name);
    option_list_set(list, "backing.driver", format);
    option_list_set(list, "backing.file.driver", "file");
    option_list_set(list, "backing.file.filename", file);
    return option_list_format(list, NULL);
}

/* Of the image of a drive, or NULL */
static const struct recorded_file *overlaid(const struct recording *r,
                                            const char *value)
{
    g_autoptr(GPtrArray) list = option_list_parse(value, NULL);
    const char *file = option_list_get(list, "file");
    const char *prefix = "recording/";
    const struct recorded_file *f = file && g_str_has_prefix(file, prefix) ?
        recording_find_file(r, file + strlen(prefix)) : NULL;

    return f && f->overlay ? f : NULL;
}

static void add_overlays(const struct recording *r, char **arguments)
{
    for (char **a = arguments; *a; a += width(a)) {
        const struct recorded_file *f = !strcmp(*a, "-drive") ?
                                        overlaid(r, a[1]) : NULL;

        if (f) {
            char *value = add_overlay(a[1], f);

            g_free(a[1]);
            a[1] = value;
        }
    }
}

/* A character device that leads to where a port of QEMU's would */
static char *chardev_to(const char *value, const char *port)
{
    g_autoptr(GPtrArray) list = option_list_parse(value, "backend");
    g_auto(GStrv) parts = g_strsplit(port, ":", 2);

    option_list_set(list, "backend", parts[0]);
    if (parts[1]) {
        option_list_set(list, "path", parts[1]);
    }
    return option_list_format(list, "backend");
}

/* The value of the option that makes a character device, or NULL */
static char **find_chardev(char **arguments, const char *id)
{
    for (char **a = arguments; *a; a += width(a)) {
        if (!strcmp(*a, "-chardev")) {
            g_autoptr(GPtrArray) list = option_list_parse(a[1], "backend");

            if (!g_strcmp0(option_list_get(list, "id"), id)) {
                return a + 1;
            }
        }
    }
    return NULL;
}

/*
 * Has the first port lead elsewhere.  One that a character device is at keeps
 * it: QEMU would make another one, whose name, serial0, can be that of this.
 */
static void connect_port(char **arguments, const char *serial)
{
    const char *prefix = "chardev:";

    for (char **a = arguments; *a; a += width(a)) {
        if (!strcmp(*a, "-serial") && strcmp(a[1], "none")) {
            char **made = g_str_has_prefix(a[1], prefix) ?
                find_chardev(arguments, a[1] + strlen(prefix)) : NULL;
            char *text = made ? chardev_to(*made, serial) : g_strdup(serial);

            made = made ? made : a + 1;
            g_free(*made);
            *made = text;
            return;
        }
    }
}

/* A port whose writes are in the log */
static bool is_logged_port(char *const *at, bool serial)
{
    return (serial ? !strcmp(*at, "-serial") :
            !strcmp(*at, "-parallel") || !strcmp(*at, "-debugcon")) &&
           at[1] && strcmp(at[1], "none");
}

unsigned replay_arguments_ports(char *const *arguments, bool serial)
{
    unsigned n = 0;

    for (; *arguments; arguments += width(arguments)) {
        n += is_logged_port(arguments, serial);
    }
    return n;
}

/* Adds what makes a character device of a socket; returns its port, to be
 * freed.  QEMU knows that of -debugcon by one name only. */
static char *new_socket(GPtrArray *added, const char *option, int sock)
{
    g_autofree char *id = !strcmp(option, "-debugcon") ?
        g_strdup("debugcon") : g_strdup_printf("backtrail-%d", sock);

    g_ptr_array_add(added, g_strdup("-chardev"));
    g_ptr_array_add(added, g_strdup_printf("socket,id=%s,fd=%d", id, sock));
    return g_strconcat("chardev:", id, NULL);
}

/* A character device that several ports are at has the first one's socket. */
static void connect_socket(char **arguments, char **option, int sock,
                           GPtrArray *added)
{
    const char *prefix = "chardev:";
    char **port = option + 1;
    char **made = g_str_has_prefix(*port, prefix) ?
        find_chardev(arguments, *port + strlen(prefix)) : NULL;
    g_autofree char *number = g_strdup_printf("%d", sock);
    g_autoptr(GPtrArray) list = NULL;
    char *text;

    if (!made) {
        text = new_socket(added, *option, sock);
        g_free(*port);
        *port = text;
        return;
    }
    list = option_list_parse(*made, "backend");
    if (g_strcmp0(option_list_get(list, "backend"), "socket")) {
        option_list_set(list, "backend", "socket");
        option_list_set(list, "fd", number);
        text = option_list_format(list, "backend");
        g_free(*made);
        *made = text;
    }
}

void replay_arguments_connect(char ***arguments, const int *sockets)
{
    g_autoptr(GPtrArray) all = g_ptr_array_new();
    unsigned n;

    for (int serial = 1; serial >= 0; serial--) {
        for (char **a = *arguments; *a; a += width(a)) {
            if (is_logged_port(a, serial)) {
                connect_socket(*arguments, a, *sockets++, all);
            }
        }
    }
    n = g_strv_length(*arguments);
    for (unsigned i = 0; i <= n; i++) {
        g_ptr_array_add(all, (*arguments)[i]);
    }
    g_free(*arguments);
    *arguments = (char **)g_ptr_array_steal(all, NULL);
}

char **replay_arguments_new(const struct recording *r, const char *serial,
                            GError **error)
{
    char **arguments;

    if (!replay_arguments_check(r->arguments, error) ||
        !check_images(r, error)) {
        return NULL;
    }
    arguments = g_strdupv(r->arguments);
    add_overlays(r, arguments);
    if (serial) {
        connect_port(arguments, serial);
    }
    return arguments;
}
