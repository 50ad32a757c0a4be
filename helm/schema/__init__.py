"""What the chart's values may be, as pydantic models; `values.schema.json` is made from them."""
