// Rank tables (RANK_TABLE_FILE, version 1.0 and 1.2): the servers, their devices, the rank of each. A small reader of
// JSON that keeps nothing: it walks the text and hears of every string value with its key and depth.
#include "sim.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_DEPTH 16

struct reader {
    const char *p;
    char status[24], version[8], server[64];
    int server_depth; // of the last server_id, 0: none open
    int phys, rank;   // of the device object being read, -1: not seen
    struct member *out;
    bool seen[MAX_RANKS];
    uint32_t n;
    const char *wrong;
};

static void space(struct reader *r)
{
    while (isspace((unsigned char)*r->p)) r->p++;
}

static bool string(struct reader *r, char *into, size_t n)
{
    size_t at = 0;
    if (*r->p != '"') return false;
    for (r->p++; *r->p != '"'; r->p++) {
        if (*r->p == 0) return false;
        if (*r->p == '\\' && r->p[1] != 0) r->p++;
        if (at + 1 < n) into[at++] = *r->p;
    }
    into[at] = 0;
    r->p++;
    return true;
}

static int whole(const char *text)
{
    char *end;
    long n = strtol(text, &end, 10);
    return *text == 0 || *end != 0 || n < 0 || n > 1 << 20 ? -1 : (int)n;
}

static void heard(struct reader *r, const char *key, const char *text, int depth)
{
    if (strcmp(key, "status") == 0) snprintf(r->status, sizeof(r->status), "%.23s", text);
    if (strcmp(key, "version") == 0) snprintf(r->version, sizeof(r->version), "%.7s", text);
    if (strcmp(key, "server_id") == 0) {
        snprintf(r->server, sizeof(r->server), "%.63s", text);
        r->server_depth = depth;
    }
    if (strcmp(key, "device_id") == 0) r->phys = whole(text);
    if (strcmp(key, "rank_id") == 0) r->rank = whole(text);
}

static void device_read(struct reader *r)
{
    if (r->rank >= MAX_RANKS || r->seen[r->rank]) {
        r->wrong = "a rank_id is out of range or appears twice";
    } else {
        r->out[r->rank] = (struct member){.phys = r->phys}; // its server is named later, or was before
        r->seen[r->rank] = true;
        r->n++;
    }
    r->phys = r->rank = -1;
}

// The end of an object: when it told of a device and a rank, it was a device; when it told of a server, the devices
// without one are its own.
static void closed(struct reader *r, int depth)
{
    if (r->phys >= 0 && r->rank >= 0) device_read(r);
    if (r->server_depth != depth + 1) return;
    for (int i = 0; i < MAX_RANKS; i++)
        if (r->seen[i] && r->out[i].host[0] == 0) memcpy(r->out[i].host, r->server, sizeof(r->out[i].host));
    r->server_depth = 0;
}

static bool value(struct reader *r, const char *key, int depth);

static bool members_of(struct reader *r, const char *parent, int depth, char close)
{
    char key[64];
    snprintf(key, sizeof(key), "%.63s", parent);
    r->p++;
    space(r);
    while (*r->p != close) {
        if (close == '}') {
            if (!string(r, key, sizeof(key))) return false;
            space(r);
            if (*r->p++ != ':') return false;
            space(r);
        }
        if (!value(r, key, depth + 1)) return false;
        space(r);
        if (*r->p == ',') r->p++;
        else if (*r->p != close) return false;
        space(r);
    }
    r->p++;
    if (close == '}') closed(r, depth);
    return true;
}

static bool value(struct reader *r, const char *key, int depth)
{
    char text[64];
    size_t n = 0;
    if (depth > MAX_DEPTH) return false;
    if (*r->p == '{') return members_of(r, key, depth, '}');
    if (*r->p == '[') return members_of(r, key, depth, ']');
    if (*r->p == '"') {
        if (!string(r, text, sizeof(text))) return false;
    } else {
        while (*r->p != 0 && strchr(",}] \t\r\n", *r->p) == NULL) {
            if (n + 1 < sizeof(text)) text[n++] = *r->p;
            r->p++;
        }
        text[n] = 0;
        if (n == 0) return false;
    }
    heard(r, key, text, depth);
    return true;
}

static char *slurp(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (f == NULL) return NULL;
    size_t room = 1 << 20;
    char *text = malloc(room);
    size_t n = text == NULL ? 0 : fread(text, 1, room - 1, f);
    fclose(f);
    if (text != NULL) text[n] = 0;
    return text;
}

static HcclResult judge(const struct reader *r, const char *path, bool parsed)
{
    if (!parsed) return hccl_fail(HCCL_E_PARA, "EI0004: rank table %s is not JSON", path);
    if (r->wrong != NULL) return hccl_fail(HCCL_E_PARA, "EI0014: rank table %s: %s", path, r->wrong);
    if (strcmp(r->version, "1.0") != 0 && strcmp(r->version, "1.2") != 0)
        return hccl_fail(HCCL_E_PARA, "EI0014: rank table %s: version \"%s\", want 1.0 or 1.2", path, r->version);
    if (r->status[0] != 0 && strcmp(r->status, "completed") != 0)
        return hccl_fail(HCCL_E_PARA, "EI0014: rank table %s: status %s, want completed", path, r->status);
    if (r->n == 0)
        return hccl_fail(HCCL_E_PARA, "EI0017: rank table %s names no device with rank_id and device_id", path);
    for (uint32_t i = 0; i < r->n; i++)
        if (!r->seen[i])
            return hccl_fail(HCCL_E_PARA, "EI0017: rank table %s: %u ranks, but not rank %u", path, r->n, i);
    return HCCL_SUCCESS;
}

HcclResult ranktable_read(const char *path, struct member *out, uint32_t *n, char *id, size_t id_n)
{
    struct reader r = {.phys = -1, .rank = -1, .out = out};
    if (strlen(path) > 4096)
        return hccl_fail(HCCL_E_PARA, "EI0004: the path of the rank table is longer than 4096 bytes");
    char *text = slurp(path);
    if (text == NULL) return hccl_fail(HCCL_E_OPEN_FILE_FAILURE, "EI0004: rank table %s cannot be read", path);
    uint64_t h = 1469598103934665603ULL;
    for (const char *p = text; *p != 0; p++) h = (h ^ (unsigned char)*p) * 1099511628211ULL;
    snprintf(id, id_n, "ranktable#%016llx", (unsigned long long)h); // the same for all who read the same table
    r.p = text;
    space(&r);
    bool parsed = value(&r, "", 0);
    HcclResult rc = judge(&r, path, parsed);
    *n = r.n;
    free(text);
    return rc;
}
