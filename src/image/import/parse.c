/* Owns the strictness of reading JSON. */
#include "image/import/parse.h"

int parse_json(const struct buf *text, const char *what, json_t **ret, struct err *e)
{
	json_error_t where;

	*ret = json_loadb(text->data ?: "", text->len, JSON_REJECT_DUPLICATES, &where);
	if (!*ret)
		return err_set(e, R_IMAGE_INVALID, 0, "read %s: line %d: %.120s", what, where.line,
			where.text);
	if (!json_is_object(*ret) && !json_is_array(*ret)) {
		json_decref(*ret);
		*ret = NULL;
		return err_set(e, R_IMAGE_INVALID, 0, "read %s: no object", what);
	}
	return 0;
}

const char *parse_text(const json_t *object, const char *key)
{
	return json_string_value(json_object_get(object, key));
}
